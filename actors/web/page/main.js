// Asking: once a second while somebody looks, and when something has happened.

// A browser asks for nothing below an address with a password in it. It knows the password by now.
const bare = new URL(document.baseURI);
if (bare.username || bare.password) {
  bare.username = bare.password = "";
  location.replace(bare);
}

const STALE = 3000; // ms after which what was read is of then, and not of now
const began = Date.now();
let lastGood = 0, took = 0, again, asking = null;

// lost says that nothing new is known, why, and since when. What is shown is of then, and grey.
// What /healthz says needs no Consul.
async function lost(why) {
  const mine = asking, signal = AbortSignal.timeout(2000);
  let own = "";
  try {
    const answer = await fetch("healthz", {cache: "no-cache", signal});
    if (answer.status === 503) {
      own = " " + sentence((await answer.text()).trim().replace(/ for [\dhms.]+/, ""));
    }
    why ||= "Consul does not answer";
  } catch {
    why = "This coordd does not answer: it has stopped, or the way to it is cut";
  }
  if (asking !== mine) return; // it was answered meanwhile
  const text = sentence(why) + own + (lastGood ? " The last answer was at " +
    clock(lastGood + skew) + ": what is shown is of then." :
    " Nothing was read since this page was opened at " + clock(began + skew) + ".");
  document.body.classList.add("old");
  document.title = "● " + document.title.replace(/^● /, "");
  tags.clear();
  if ($("wrong").dataset.key === text) return;
  $("wrong").dataset.key = text;
  waits = [];
  $("wrong").replaceChildren(el("div", {class: "bad lost"}, el("span", {class: "text"}, text),
    timer({since: lastGood || began})));
  countdown();
}

async function tick() {
  clearTimeout(again);
  if (!document.hidden && !asking) {
    const begun = Date.now(), was = lastGood;
    asking = {};
    const slow = setTimeout(lost, Math.max(STALE, 3 * took));
    try {
      const [status, holders, offers] = await Promise.all([get("v1/status"), get("v1/holders"),
        offered()]);
      if (status) latest.status = status;
      if (holders) latest.holders = holders;
      took = Date.now() - begun;
      lastGood = Date.now() - age;
      const aged = Date.now() - lastGood > STALE || begun - was > STALE;
      if (status || holders || offers || aged || document.body.classList.contains("old")) {
        await show(latest.status, holders || ((status || offers) && latest.holders));
      }
      follow();
    } catch (e) {
      await lost(e.cause === "said" ? e.message : "");
    }
    clearTimeout(slow);
    asking = null;
    if (opened) fillDrawer();
  }
  again = setTimeout(tick, 1000);
}
// soon asks at once, and again when what was read at this moment may be read anew.
function soon() {
  tick();
  setTimeout(tick, 450);
}
setInterval(countdown, 250);
document.addEventListener("visibilitychange", () => {
  tip("");
  if (document.hidden) unfollow();
  else tick();
});

// The tree of actors, while it is open.
function branch(r) {
  const bad = r.last_cause ? " · last end: " + r.last_cause.kind + " " + r.last_cause.err : "";
  const li = el("li", {}, r.name || "members", " ", el("small", {}, (r.state || "") +
    (r.restarts ? " · " + count(r.restarts, "restart") : "") + bad));
  const kids = r.children || [], shown = kids.slice(0, 30);
  if (kids.length) {
    li.append(el("ul", {}, ...shown.map(branch), ...(kids.length > shown.length ?
      [el("li", {}, el("small", {}, "and " + number(kids.length - shown.length) + " more"))] :
      [])));
  }
  return li;
}

// folded asks while somebody looks into a part of the page that is folded at first.
function folded(id, path, every, show) {
  async function ask() {
    if (!$(id).open || document.hidden) return;
    let kids;
    try {
      const answer = await get(path);
      if (!answer) return;
      kids = show(answer);
    } catch (e) {
      tags.delete(path);
      kids = [el("p", {}, sentence(why(e)))];
    }
    $(id).lastElementChild.replaceChildren(...kids);
  }
  $(id).addEventListener("toggle", () => { tags.delete(path); ask(); });
  setInterval(ask, every);
}
folded("actors", "v1/tree", 3000, tree => [el("ul", {}, branch(tree))]);

// The plan, while it is open: what would move yet, and how even the loads are.
function planned(p) {
  const moves = !p.moving ? "Nothing has to move" :
    count(p.moving, "item") + (p.moving === 1 ? " has" : " have") + " to move";
  const lines = [moves, "The loads of two members differ by " +
    number(p.imbalance_before) + " at most, and by " + number(p.imbalance_after) + " afterwards"];
  if (p.version) {
    lines.push("Items that move prefer version " + p.version +
      ", whose members hold up to twice a share until all have it");
  }
  if (p.unplaced.length) lines.push(count(p.unplaced.length, "item") + " cannot be where due");
  const groups = new Map();
  for (const m of p.moves) {
    const text = (m.from || "nobody") + " → " + (m.to || "nobody") + ": " + m.why +
      (m.prefers ? ", prefers " + m.prefers : "");
    groups.set(text, (groups.get(text) || 0) + 1);
  }
  const most = [...groups].sort((a, b) => b[1] - a[1]);
  for (const [text, n] of most.slice(0, 20)) lines.push(count(n, "item") + " " + text);
  if (most.length > 20) lines.push("and " + number(most.length - 20) + " kinds of moves more");
  return lines;
}
folded("plan", "v1/plan", 5000, plan => planned(plan).map(text =>
  el("p", {}, sentence(text))));

tick();
