// The drawer with all about one item or member, and the search.

let opened = null; // {kind, id, by}: what the drawer shows, and what had the focus before

function openItem(id) { openDrawer("item", id); }
function openMember(id) { openDrawer("member", id); }

function openDrawer(kind, id) {
  const had = opened ? opened.by : document.activeElement;
  opened = {kind, id, by: had};
  $("drawer-head").textContent = id;
  $("drawer-body").replaceChildren(el("p", {}, "Asking this coordd, which asks Consul…"));
  $("drawer").hidden = false;
  $("drawer-head").focus();
  fillDrawer();
}
function closeDrawer() {
  if (!opened) return;
  $("drawer").hidden = true;
  const had = opened.by;
  opened = null;
  if (had && had.isConnected) had.focus();
}
$("close").onclick = closeDrawer;

function facts(pairs) {
  return el("dl", {}, ...pairs.filter(([, v]) => v !== undefined && v !== "" && v !== null)
    .flatMap(([k, v]) => [el("dt", {}, k), el("dd", {}, v)]));
}
const ago = t => t ? span(now() - Date.parse(t)) + " ago, " + clock(Date.parse(t)) : "";

function history(all) {
  if (!all) return el("p", {}, "The log could not be read.");
  const groups = grouped(all).reverse().slice(0, 100);
  if (!groups.length) {
    return el("p", {}, "The log has nothing about it: it holds the last 256 transactions.");
  }
  return el("ol", {class: "history"}, ...groups.map(g => {
    return el("li", {}, el("time", {}, clock(g.at)), el("span", {}, worded(g)[0]));
  }));
}

async function fillDrawer() {
  const mine = opened;
  if (!mine) return;
  const {kind, id} = mine;
  let body;
  try {
    const past = get("v1/events?about=" + encodeURIComponent(id), true).catch(() => null);
    body = mine.body = kind === "item" ?
      itemBody(await get("v1/items/" + encodeURIComponent(id), true), await payloadOf(mine),
        await past) : memberBody(id, await past);
  } catch (e) {
    body = [el("p", {class: "line loop"}, sentence(why(e))),
      ...(mine.body || []).map(kid => kid.cloneNode(true))]; // of then
  }
  if (opened !== mine) return; // another one meanwhile
  renew($("drawer-body"), body);
}

// renew changes what differs and nothing else: what somebody has selected stays selected.
function renew(e, kids) {
  while (e.children.length > kids.length) e.lastElementChild.remove();
  kids.forEach((kid, i) => {
    const old = e.children[i];
    if (!old) e.append(kid);
    else if (old.outerHTML === kid.outerHTML) return;
    else if (old.tagName === kid.tagName && old.className === kid.className &&
        kid.children.length && kid.children.length === kid.childNodes.length) {
      renew(old, [...kid.children]);
    } else old.replaceWith(kid);
  });
}

// payloadOf is what an item's work gets, as text or in hexadecimal digits: the beginning of it. It
// is read every five seconds while it is looked at.
const SHOWN = 1024; // bytes
async function payloadOf(o) {
  if (o.payload && Date.now() - o.read < 5000) return o.payload;
  o.read = Date.now();
  try {
    const answer = await fetch("v1/items/" + encodeURIComponent(o.id) + "/payload",
      {cache: "no-store", headers: {Range: "bytes=0-" + (SHOWN - 1)},
        signal: AbortSignal.timeout(15000)});
    const bytes = new Uint8Array(await answer.arrayBuffer());
    if (!answer.ok) throw new Error(JSON.parse(new TextDecoder().decode(bytes)).error,
      {cause: "said"});
    const all = +(answer.headers.get("Content-Range") || "").split("/")[1] || bytes.length;
    const size = count(all, "byte") + (all > SHOWN ? ", of which these are the first" : "");
    try {
      const text = new TextDecoder("utf-8", {fatal: true}).decode(bytes, {stream: true});
      if (!/[^\P{C}\n\r\t]/u.test(text)) return o.payload = [size, text];
    } catch { /* it is no text */ }
    const hex = [...bytes].map(b => b.toString(16).padStart(2, "0"));
    return o.payload = [size + ", in hexadecimal digits", hex.join(" ")];
  } catch (e) {
    return ["not read: " + why(e)];
  }
}

// commands are those that an operator may want, each with a button that copies it.
function commands(...all) {
  return el("ul", {class: "commands"}, ...all.map(text => el("li", {}, el("code", {}, text),
    el("button", {type: "button", "aria-label": "Copy " + text, "data-copy": text},
      opened?.copied === text ? "Copied" : "Copy"))));
}
$("drawer-body").addEventListener("click", async e => {
  const {copy, item} = e.target.dataset;
  if (item !== undefined) openItem(item);
  if (copy === undefined) return;
  let done = true;
  try {
    await navigator.clipboard.writeText(copy);
  } catch { // a browser has no clipboard for pages without TLS
    getSelection().selectAllChildren(e.target.previousSibling);
    done = document.execCommand("copy");
  }
  announce(done ? "Copied" : "The command is selected");
  if (!done || !opened) return;
  opened.copied = copy;
  e.target.textContent = "Copied"; // in its place: it has the focus
});

function itemBody(i, payload, past) {
  const [kind, name] = stateOf(i.state), pauses = i.next_start && Date.parse(i.next_start) - now();
  const until = i.until && Date.parse(i.until) - now();
  const states = {"free": "Nobody has it", "unknown": "Owned, and not known to run"};
  return [
    el("p", {class: "line " + kind}, el("b", {}, capital(states[i.state] || name)),
      i.why ? ": " + i.why : "", until > 0 ? ". " + span(until) + " at the latest" : ""),
    facts([
      ["Owner", i.member], ["Why there", i.there && capital(i.there)], ["Grant", i.grant],
      ["There since", ago(i.there_since)], ["State since", ago(i.since)],
      ["Pinned to", i.pinned],
      ["Preferred at", i.preferred && i.preferred + ", while it takes items and has room"],
      ["Weight", i.weight > 1 ? number(i.weight) : ""],
      ["Restarts", i.restarts ? number(i.restarts) + ", by " + i.member : i.member ? "none" : ""],
      ["Last end", i.last_exit && i.last_exit + " (" + ago(i.last_exit_at) + ")"],
      ["Failed at", i.failed_at && list([...i.failed_at].sort(naturally)) +
        ": its work ended too often there"],
      ["Starts again", pauses > 0 ? "in " + span(pauses) : ""],
      ["Removed", i.removed ? "it is not in the workload any more" : ""],
    ]),
    ...(i.next ? [el("h3", {}, "What it takes for it to run"), el("p", {}, sentence(i.next))] : []),
    el("h3", {}, "What it writes"), el("p", {}, "In the log of " +
      (i.member || "the member that ran it") + "; with --output file:DIR in " +
      (/^[\w@+=,:-][\w.@+=,:-]*$/.test(i.id) ? "DIR/" + i.id + ".log" : "a file named after it") +
      " on its machine."),
    el("h3", {}, "What may be typed"), commands(command("explain", i.id),
      command("restart", i.id), i.pinned ? command("unpin", i.id) :
        command("pin", i.id, i.member || "MEMBER")),
    el("h3", {}, "Its payload"), el("p", {}, sentence(payload[0])),
    ...(payload[1] ? [el("pre", {}, payload[1])] : []),
    el("h3", {}, "What happened to it"), history(past),
  ];
}

function memberBody(id, past) {
  const s = latest.status || {members: []};
  const m = [...s.members, ...(s.absent || [])].find(m => m.id === id);
  const about = m ? tagsOf(m, s.leader && s.leader.id === id) : [["not registered", ""]];
  const n = parts(m && m.states || {}).map(([, k, what]) => number(k) + " " + what).join(", ");
  return [
    el("p", {}, ...about.flatMap(([text, cls]) => [el("span", {class: "tag " + cls}, text), " "])),
    ...(m ? [facts([
      ["Status", m.status], ["Gone since", ago(m.since)],
      ["Silent since", ago(m.silent_since)],
      ["Items", number(m.items) + (n ? ": " + n : "")],
      ["Failed here", m.failed_items && count(m.failed_items, "item") +
        ", since it was registered: " + (m.failed_items === 1 ? "it was" : "they were") +
        " moved elsewhere"],
      ["Load", m.load && number(m.load) + ", the weight of its items"],
      ["Capacity", m.capacity ? number(m.capacity) + ", in weight" : "no limit"],
      ["Address", m.address], ["Zone", m.zone], ["Version", m.version],
      ["Lease", m.lease_ms ? span(m.lease_ms) + ": as long it works on without Consul" : ""],
    ])] : []),
    el("h3", {}, "What happened to it"), history(past),
    ...itemsOf(rows.get(id)),
  ];
}

// itemsOf lists what a member has, or that of it which is searched for.
const LISTED = 200;
function itemsOf(row) {
  const all = row ? row.held.filter(([item]) => !dimmed(item)) : [], more = all.length - LISTED;
  if (!all.length) return [];
  return [el("h3", {}, "Its items" + (asked ? " with “" + asked + "”" : "")),
    el("ul", {class: "items"}, ...all.slice(0, LISTED).map(([item, state]) => el("li", {},
      el("button", {type: "button", "data-item": item, "aria-label": "Open " + item}, item),
      el("small", {}, stateOf(state)[1])))),
    ...(more > 0 ? [el("p", {}, "And " + number(more) + " more: the search finds them.")] : [])];
}

// The search: items and members whose ids hold what is typed.
const HITS = 40;
let hits = [], chosen = -1;

function search() {
  const text = $("query").value.trim().toLowerCase(), changed = text !== asked;
  asked = text;
  hits = [];
  if (text) {
    const found = [...rows.keys()].filter(id => id !== FREE && id.toLowerCase().includes(text))
      .sort(naturally).map(id => ["member", id]);
    let items = [];
    for (const item of (where || new Map()).keys()) {
      if (item.toLowerCase().includes(text)) items.push(item);
    }
    const n = items.length;
    if (n < 5000) items.sort(naturally);
    hits = [...found.slice(0, 10), ...items.slice(0, HITS).map(id => ["item", id])];
    hits.all = n + found.length;
  }
  chosen = hits.length ? 0 : -1;
  showHits(text);
  if (changed) redraw();
}
function showHits(text) {
  const open = !!text && document.activeElement === $("query");
  $("hits").hidden = !open;
  $("query").setAttribute("aria-expanded", String(open));
  if (!open) return $("query").removeAttribute("aria-activedescendant");
  const kids = hits.map(([kind, id], i) => {
    const has = kind === "item" ? where.get(id) || "free" : "member";
    return el("li", {role: "option", id: "hit-" + i, "aria-selected": String(i === chosen),
      onmousedown: e => { e.preventDefault(); pick(i); }},
    el("span", {}, id), el("small", {}, has));
  });
  if (!hits.length) kids.push(el("li", {role: "option", "aria-selected": "false"},
    el("span", {}, where ? "Nothing is called that." : "Nothing has been read yet.")));
  else if (hits.all > hits.length) kids.push(el("li", {role: "option", "aria-selected": "false"},
    el("span", {}, "and " + number(hits.all - hits.length) + " more")));
  $("hits").replaceChildren(...kids);
  if (chosen >= 0) {
    $("query").setAttribute("aria-activedescendant", "hit-" + chosen);
    kids[chosen].scrollIntoView({block: "nearest"});
  }
}
function pick(i) {
  const [kind, id] = hits[i] || [];
  if (!id) return;
  $("hits").hidden = true;
  openDrawer(kind, id);
}
$("query").addEventListener("input", search);
$("query").addEventListener("focus", search);
$("query").addEventListener("blur", () => showHits(""));
$("query").addEventListener("keydown", e => {
  const step = {ArrowDown: 1, ArrowUp: -1}[e.key];
  if (step && hits.length) {
    chosen = (chosen + step + hits.length) % hits.length;
    showHits(asked);
    e.preventDefault();
  }
});
$("search").addEventListener("submit", e => {
  e.preventDefault();
  pick(chosen);
});
addEventListener("keydown", e => {
  if (e.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName) && !e.ctrlKey &&
      !e.metaKey && !e.altKey) {
    e.preventDefault();
    $("query").focus();
    $("query").select();
  }
  if (e.key !== "Escape") return;
  if (opened) closeDrawer();
  else if ($("query").value) {
    $("query").value = "";
    search();
  }
});
