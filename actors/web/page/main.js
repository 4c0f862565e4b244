// Asking: once a second while somebody looks, and when something has happened.

// A browser asks for nothing below an address with a password in it. It knows the password by now.
const bare = new URL(document.baseURI);
if (bare.username || bare.password) {
  bare.username = bare.password = "";
  location.replace(bare);
}

let lastGood = 0, timer, asking = false;

function stale() {
  if (!lastGood) return "";
  const old = Date.now() - lastGood;
  return " What you see is " + span(old) + " old.";
}

async function tick() {
  clearTimeout(timer);
  if (!document.hidden && !asking) {
    asking = true;
    try {
      const [status, holders, offers] = await Promise.all([get("v1/status"), get("v1/holders"),
        offered()]);
      if (status) latest.status = status;
      if (holders) latest.holders = holders;
      if (status || holders || offers || document.body.classList.contains("old")) {
        await show(latest.status, holders || ((status || offers) && latest.holders));
      }
      lastGood = Date.now();
      follow();
    } catch (e) {
      document.body.classList.add("old");
      const why = e.cause === "said" ? e.message :
        "This coordd does not answer: it has stopped, or the way to it is cut";
      const text = sentence(why) + stale(), wrong = $("wrong");
      delete wrong.dataset.key;
      waits = [];
      if (!wrong.querySelector(".lost")) {
        wrong.replaceChildren(el("div", {class: "bad lost"}, el("span", {class: "text"})));
      }
      wrong.querySelector(".text").textContent = text;
      tags.clear();
    }
    asking = false;
    if (opened) fillDrawer();
  }
  timer = setTimeout(tick, 1000);
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
async function showTree() {
  if (!$("actors").open || document.hidden) return;
  try {
    const tree = await get("v1/tree");
    if (tree) $("tree").replaceChildren(el("ul", {}, branch(tree)));
  } catch { /* the status says what is wrong */ }
}
$("actors").addEventListener("toggle", () => { tags.delete("v1/tree"); showTree(); });
setInterval(showTree, 3000);

tick();
