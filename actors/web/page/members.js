// What is wrong, the summary, and a row for each member.

const rows = new Map(); // member -> its row; FREE is that of the items that nobody has
const FREE = "\u0000free";
let where = null;       // item -> member of the last reading; null: none yet
let latest = {status: null, holders: null};

function bar(e, parts, of) {
  while (e.children.length < parts.length) e.append(el("i"));
  while (e.children.length > parts.length) e.lastChild.remove();
  parts.forEach(([cls, n], i) => {
    if (e.children[i].className !== cls) e.children[i].className = cls;
    e.children[i].style.width = (of ? 100 * n / of : 0) + "%";
  });
}
const parts = counts => ORDER.filter(s => counts[s]).map(s => [stateOf(s)[0], counts[s],
  stateOf(s)[1]]);

// What is waited for has a countdown; it is not read out each second.
let waits = [];
function countdown() {
  for (const w of waits) {
    const left = w.until - now();
    w.e.replaceChildren(...(left > 0 ? [span(left), el("small", {}, " at the latest")] :
      [el("small", {}, "any moment")]));
  }
}

function showWrong(status) {
  const lines = [], w = status.work;
  if (status.frozen) {
    lines.push(["order", "Frozen by an operator: nothing is moved, placed or taken over until " +
      "“coordd thaw”."]);
  }
  for (const p of status.problems || []) {
    if (status.frozen && p.kind === "brake") continue;
    const text = p.until ? p.text.replace(/, until [\d:]+ UTC at the latest$/, "") : p.text;
    lines.push([p.kind === "waiting" ? "wait" : p.kind === "brake" ? "order" : "", sentence(text),
      p.until, p.items || []]);
  }
  if (status.strange) {
    lines.push(["", "Keys that this version cannot read are skipped: " +
      status.strange.join(", ")]);
  }
  const drained = [...status.drained || []].sort(naturally);
  if (drained.length) {
    const left = [...status.members, ...(status.absent || [])].filter(m => drained.includes(m.id))
      .reduce((sum, m) => sum + m.items, 0), one = drained.length === 1;
    const who = drained.length < 7 ? list(drained) : count(drained.length, "member");
    lines.push(["order", who + (one ? " is" : " are") + " drained by an operator: " + (left ?
      count(left, "item") + " still there." : one ? "it is empty." : "they are empty.") +
      " “coordd undrain " + (one ? who : "MEMBER") + "” lets " + (one ? "it" : "them") +
      " have items again."]);
  }
  if (!(status.problems || []).length && status.leader) {
    const n = (w.states || {}).running || 0, others = parts(w.states || {})
      .filter(p => p[2] !== "running").map(p => number(p[1]) + " " + p[2]);
    const text = !w.total ? "Nothing is wrong. There is no work yet: “coordd work add ITEM”." :
      n === w.total ? (n === 1 ? "The only item runs." : "All " + number(n) + " items run.") :
      "Nothing is wrong: " + number(n) + " of " + count(w.total, "item") + " run, " +
      list(others) + ".";
    lines.push([lines.length ? "calm" : "fine", text]);
  }
  const key = JSON.stringify(lines);
  if ($("wrong").dataset.key === key) return;
  $("wrong").dataset.key = key;
  waits = [];
  $("wrong").replaceChildren(...lines.map(([cls, text, until, items]) => {
    const e = el("div", {class: cls || "bad"}, el("span", {class: "text"}, text));
    if (until) {
      const left = el("span", {class: "left", "aria-hidden": "true"});
      waits.push({e: left, until: Date.parse(until)});
      e.append(left);
    }
    if (items && items.length) {
      e.append(el("button", {type: "button", onclick: () => openItem(items[0])},
        "Why"));
    }
    return e;
  }));
  countdown();
}

function showWork(w) {
  const p = parts(w.states || {});
  bar($("total"), p, w.total);
  $("legend").replaceChildren(el("li", {}, el("b", {}, number(w.total)), " items"),
    ...p.map(([cls, n, what]) => el("li", {}, el("i", {class: cls}), el("b", {}, number(n)),
      " " + what)));
}

function rowOf(id) {
  let row = rows.get(id);
  if (row) return row;
  row = {id, name: id === FREE ? "Free" : id, held: []};
  row.root = el("div", {class: "member", role: "listitem", "aria-label": row.name});
  row.who = el("div", {class: "who"});
  row.bar = el("div", {class: "bar", "aria-hidden": "true"});
  row.load = el("div", {class: "load"});
  row.more = el("div", {class: "more"});
  row.acts = el("div", {class: "acts"});
  row.tiles = el("div", {class: "tiles"});
  const head = el("div", {class: "head"}, row.who, row.bar, row.load, row.more);
  row.root.append(head, row.acts, row.tiles);
  rows.set(id, row);
  return row;
}

// What stands beside a member's name.
function tagsOf(m, leader) {
  const all = [], n = m.states || {}, verb = (k, one, many) => k + " " + (k === 1 ? one : many);
  if (leader) all.push(["leads", "run"]);
  if (doneTo(m.id)) all.push([doneTo(m.id), "loop"]);
  if (m.status === "gone") all.push(["gone: its items wait for it", "wait"]);
  else if (m.status && m.status !== "alive") all.push([m.status, "stop"]);
  if (m.drained) all.push(["drained", "stop"]);
  if (m.idle) all.push(["runs nothing", ""]);
  if (n["crash-looping"]) all.push([verb(n["crash-looping"], "loops", "loop"), "loop"]);
  if (n.quarantined) all.push([n.quarantined + " quarantined", "loop"]);
  if (n.starting) all.push([verb(n.starting, "starts", "start"), "start"]);
  if (n.stopping) all.push([verb(n.stopping, "stops", "stop"), "stop"]);
  if (n.waiting && m.status !== "gone") all.push([verb(n.waiting, "waits", "wait"), "wait"]);
  if (m.failed_items) all.push([count(m.failed_items, "item") + " failed here", "loop"]);
  return all;
}

function fillRow(row, m, leader, most) {
  fillActs(row);
  const full = m.capacity && m.items >= m.capacity;
  const key = JSON.stringify([m, leader, most, doneTo(m.id)]);
  if (row.key === key) return;
  row.key = key;
  row.root.classList.toggle("gone", m.status === "gone" || row.id === FREE);
  row.root.classList.toggle("drained", !!m.drained);
  const name = row.id === FREE ? el("b", {}, "Free") :
    el("button", {type: "button", "data-member": m.id, title: m.id}, m.id);
  const free = row.id === FREE ? [["no member has them", "free"]] : [];
  const about = [...free, ...tagsOf(m, leader)];
  row.who.replaceChildren(name, ...about.map(([text, cls]) => el("span", {class: "tag " + cls},
    text)));
  bar(row.bar, parts(m.states || {}), m.capacity || most);
  row.load.replaceChildren(el("b", {}, number(m.items)), m.capacity ?
    " of " + number(m.capacity) + (full ? ", full" : "") : m.items === 1 ? " item" : " items");
  row.more.textContent = [m.zone, m.version, m.lease_ms && "lease " + span(m.lease_ms)]
    .filter(Boolean).join(" · ");
  row.more.title = m.address ? "address " + m.address : "";
}

// What a member has: items and their states, by name. Most have what they had a second ago.
function heldBy(row, h) {
  const source = JSON.stringify(h);
  if (row.source === source) return row.held;
  row.source = source;
  const state = new Map();
  for (const i of h.own) state.set(i, "running");
  for (const i of h.releasing) state.set(i, "stopping");
  for (const [s, items] of Object.entries(h.states || {})) for (const i of items) state.set(i, s);
  return [...state].sort((a, b) => naturally(a[0], b[0]));
}
const sameHeld = (x, y) => x === y || x.length === y.length && x.every((h, i) => h[0] === y[i][0] &&
  h[1] === y[i][1]);

// leaving notes where the tiles are that are about to travel.
function leaving(next) {
  const from = [];
  const resized = (next.size <= LABELLED) !== (total <= LABELLED);
  if (!where || still.matches || document.hidden || resized) return from;
  const found = [];
  for (const [item, to] of next) {
    const was = where.get(item);
    if (was !== undefined && was !== to) found.push([item, was, to]);
  }
  const step = Math.max(1, Math.ceil(found.length / (FLYING - flights.length || 1)));
  for (let i = 0; i < found.length && flights.length < FLYING; i += step) {
    const [item, was, to] = found[i], row = rows.get(was || FREE);
    const at = row && place(row, item);
    if (at) from.push({item, from: at, to: to || FREE});
  }
  return from;
}

function showMembers(status, holders) {
  const at = Date.now(), next = new Map();
  for (const m of holders.members) {
    for (const items of [m.own, m.releasing]) for (const item of items) next.set(item, m.id);
  }
  for (const item of holders.free) next.set(item, "");
  const travel = leaving(next), resized = (total <= LABELLED) !== (next.size <= LABELLED);
  const before = total;
  total = next.size;
  head = total <= LABELLED ? commonHead([...next.keys()]) : "";
  let news = 0;
  if (where) {
    for (const [item, to] of next) {
      if (where.get(item) !== to) { moved.set(item, at); news++; }
    }
  }
  for (const item of moved.keys()) if (!next.has(item)) moved.delete(item);
  if (news) setTimeout(settle, FRESH + 100);
  where = next;

  const details = new Map([...status.members, ...(status.absent || [])].map(m => [m.id, m]));
  const all = holders.members.map(h => [rowOf(h.id), details.get(h.id) || {id: h.id,
    status: h.status, items: h.own.length}, heldBy(rowOf(h.id), h)]);
  for (const id of acts.keys()) if (!holders.members.some(h => h.id === id)) {
    all.push([rowOf(id), details.get(id) || {id, items: 0}, []]);
  }
  all.sort((a, b) => naturally(a[0].id, b[0].id));
  if (holders.free.length) {
    const shut = new Set(holders.quarantined || []), n = holders.free.length;
    all.push([rowOf(FREE), {id: FREE, items: n, states: {free: n - shut.size, quarantined:
      shut.size}}, holders.free.map(i => [i, shut.has(i) ? "quarantined" : "free"])
      .sort((a, b) => naturally(a[0], b[0]))]);
  }
  $("members").classList.toggle("dense", all.length > 20);
  const most = Math.max(1, ...all.map(a => a[2].length)), box = $("members");
  const leader = status.leader ? status.leader.id : "";
  let here = box.firstChild;
  for (const [row, m, held] of all) {
    fillRow(row, m, m.id === leader, most);
    if (row.root === here) here = here.nextSibling; else box.insertBefore(row.root, here);
    const same = sameHeld(row.held, held) && !resized && before === total;
    row.held = held;
    if (!same || news && held.some(h => moved.has(h[0]))) fillTiles(row);
  }
  const kept = new Set(all.map(a => a[0]));
  for (const [id, row] of rows) if (!kept.has(row)) { row.root.remove(); rows.delete(id); }
  if (!all.length) {
    box.replaceChildren(el("p", {}, "No members are registered, and there is no work."));
  } else box.querySelector(":scope > p")?.remove();
  const land = travel.map(f => {
    const row = rows.get(f.to), to = row && place(row, f.item);
    const held = to && row.held.find(h => h[0] === f.item);
    return held && {...f, row, to, kind: stateOf(held[1])[0]};
  }).filter(Boolean);
  if (land.length) fly(land);
}

// settle takes the mark from tiles that have moved a while ago.
function settle() {
  const of = new Set();
  for (const [item, t] of moved) {
    if (Date.now() - t <= FRESH) continue;
    moved.delete(item);
    of.add(rows.get(where.get(item) || FREE));
  }
  for (const row of of) if (row) fillTiles(row);
}
function redraw() { for (const row of rows.values()) fillTiles(row); }

let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  for (const row of rows.values()) row.width = 0;
  redraw();
});

function show(status, holders) {
  document.title = ((status.problems || []).length ? "● " : "") + status.service + " · coordd";
  $("service").textContent = status.service;
  const n = status.members.length;
  $("facts").replaceChildren(
    el("span", {}, ...(status.leader ? [el("b", {}, status.leader.id), " leads"] :
      ["nobody leads"])),
    el("span", {}, el("b", {}, number(n)), n === 1 ? " member" : " members"),
    ...(status.pins ? [el("span", {}, el("b", {}, number(status.pins)), " pinned")] : []));
  showWrong(status);
  showWork(status.work);
  document.body.classList.remove("old", "empty");
  if (holders) showMembers(status, holders);
}
