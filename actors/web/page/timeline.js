// What happened, and why: the events of the log in words, those that belong together in one line.

const EVENTS = 2000; // kept here at the most
const LINES = 80;
let events = [];
const heard = new Set(); // each of events, as text

const CAUSES = {
  "new": "placed", "balance": "balancing the load", "capacity": "over capacity", "pinned": "pinned",
  "preferred": "preferred there", "quarantined": "work that failed too often",
  "removed": "removed from the workload", "unreadable": "the assignment was unreadable",
  "not-addressed": "the assignment was addressed to nobody", "cancelled": "called back",
  "elsewhere": "another member takes it",
};
const by = e => e.by ? ", by " + e.by : "";
const order = e => "by " + (e.by || "an operator");
const few = items => items.length > 3 ? count(items.length, "item") : list(items);

// causeOf begins a line: why items moved.
function causeOf(e) {
  switch (e.why) {
  case "drain": return e.from + " drained";
  case "left": return e.from + " stopped";
  case "lost": return e.from + " lost";
  case "released": return "given up by " + e.from;
  case "failing": return "work that failed too often at " + e.from;
  }
  return CAUSES[e.why] || e.why || "";
}

// flows are numbers of items and where they went: "9 items to n1, 8 to n2".
function flows(group) {
  const sums = new Map(), from = new Set(), to = new Set();
  let items = 0;
  for (const e of group.events) {
    const n = (e.items || []).length, key = (e.from || "") + "\n" + (e.to || "");
    items += n;
    sums.set(key, (sums.get(key) || 0) + n);
    if (e.from) from.add(e.from);
    if (e.to) to.add(e.to);
  }
  const all = [...sums].map(([key, n]) => [...key.split("\n"), n]);
  all.sort((a, b) => naturally(a[0], b[0]) || naturally(a[1], b[1]));
  const said = from.size === 1 &&
    /^(drain|left|lost|released|failing)$/.test(group.events[0].why || "");
  const named = items === 1 ? group.events.find(e => (e.items || []).length).items[0] : "";
  if (all.length > 6) {
    const ends = (what, set) => !set.size ? "" : " " + what + " " + (set.size === 1 ? [...set][0] :
      number(set.size) + " members");
    return count(items, "item") + (said ? "" : ends("from", from)) + ends("to", to);
  }
  const what = (n, i) => named || (i ? number(n) : count(n, "item"));
  if (to.size === 1 && from.size > 1) {
    return list(all.map(([f, , n], i) => what(n, i) + (f ? " from " + f : ""))) + ", to " +
      [...to][0];
  }
  if (from.size < 2) {
    return list(all.map(([, t, n], i) => what(n, i) + " to " + t)) +
      (from.size && !said ? ", from " + [...from][0] : "");
  }
  return list(all.map(([f, t, n], i) => what(n, i) + (f ? " from " + f : "") + " to " + t));
}

// textOf is a line's text and its tone.
function textOf(group) {
  const e = group.events[0], items = few(group.events.flatMap(e => e.items || []));
  const names = k => {
    const all = [...new Set(group.events.map(e => e[k]))].sort(naturally);
    return all.length < 7 ? list(all) :
      count(all.length, "member") + " (" + all.slice(0, 3).join(", ") + ", …)";
  };
  const are = group.events.length > 1 ? " are" : " is";
  switch (e.kind) {
  case "leads": return [e.to + " leads" + (e.from ? ", after " + e.from : ""), "good"];
  case "joined":
    return [names("to") + " joined" + (e.why ? " again, with a new session" : ""),
      e.why ? "" : "good"];
  case "leaving": return [names("from") + are + " about to stop", ""];
  case "left": case "lost": {
    const wait = e.holds ? " with " + count(e.holds, "item") + ", which others get after " +
      span(e.wait_ms || 0) + " at the latest" : "";
    return [e.from + (e.kind === "lost" ? " was lost" : " has stopped") + wait,
      e.kind === "lost" ? "bad" : ""];
  }
  case "drained": return [names("from") + are + " drained " + order(e), "order"];
  case "undrained": return [names("from") + are + " no longer drained" + by(e), "order"];
  case "pinned": return [items + " pinned to " + e.to + by(e), "order"];
  case "unpinned": return [items + " no longer pinned" + by(e), "order"];
  case "preferred": return [items + " preferred at " + e.to + by(e), "order"];
  case "unpreferred": return [items + " no longer preferred anywhere" + by(e), "order"];
  case "frozen": return ["frozen: nothing is moved or placed" + by(e), "order"];
  case "thawed": return ["thawed" + by(e), "order"];
  case "overridden":
    return ["the brake is released " + order(e) + ": what is gone is not waited for", "order"];
  case "brake-on": return ["the brake is on: " + e.why, "bad"];
  case "brake-off": return ["the brake is off", "good"];
  case "granted": case "taken-over":
    return [causeOf(e) + ": " + flows(group), e.why === "lost" ? "bad" : "move"];
  case "revoked": {
    const are = new Set(group.events.map(e => e.from)).size > 1 ? " are" : " is";
    return [causeOf(e) + ": " + names("from") + are + " giving up " + items, "aside"];
  }
  case "kept": return [items + " stays at " + e.from + " after all", "aside"];
  case "restarted": return [items + ": restarted at " + e.from + " " + order(e), "order"];
  case "changed":
    return [items + ": payload or weight changed; " + e.from + " is told", "aside"];
  case "quarantined":
    return [items + " quarantined, because the work failed too often at " + names("from") + ": " +
      e.why, "bad"];
  case "unquarantined":
    return [items + " no longer quarantined, " +
      (e.why ? causeOf(e) : "by an order to restart" + by(e)), "good"];
  case "erased": return [causeOf(e) + ": " + items + " at " + names("from"), "aside"];
  case "more": return ["and " + number(e.more) + " more, for which the log had no room", "aside"];
  case "missed": return ["more happened than the log holds: some is missing here", "aside"];
  }
  return [[e.kind, items, e.from, e.to, e.why].filter(Boolean).join(" ") + by(e), ""];
}

// worded is a line as it is shown: it begins with a capital letter, unless it begins with an id.
function worded(group) {
  const [text, tone] = textOf(group);
  const id = group.events.some(e => [e.from, e.to, ...(e.items || [])].some(id => id &&
    text.startsWith(id)));
  return [id ? text : capital(text), tone];
}

// grouped puts events together that are one thing: of the same kind and cause, within some seconds.
function grouped(all) {
  const groups = [], alone = /^(leads|lost|left|frozen|thawed|brake-on|brake-off|missed|more)$/;
  const byFrom = /^(drain|left|lost|released|failing)$/;
  for (const e of all) {
    const from = byFrom.test(e.why || "") || alone.test(e.kind) ? e.from : "";
    const to = /^(pinned|preferred|restarted|changed)$/.test(e.kind) ? (e.to || "") + e.from : "";
    const key = [e.kind, e.why, from, to, e.by].join("\n"), t = Date.parse(e.time);
    let g;
    for (let i = groups.length - 1; i >= 0 && i > groups.length - 6 && !g; i--) {
      if (groups[i].key === key && t - groups[i].last < 10000) g = groups[i];
    }
    if (g && !(alone.test(e.kind) && e.kind !== "more")) {
      g.events.push(e);
      g.last = t;
    } else {
      groups.push({key, events: [e], at: t, last: t, id: e.index + key});
    }
  }
  return groups;
}

const lines = new Map(); // id of a group -> its element
function showTimeline(announced) {
  const groups = grouped(events).slice(-LINES).reverse(), box = $("timeline"), keep = new Set();
  const today = new Date(now()).toDateString();
  let here = box.firstChild;
  for (const g of groups) {
    const [text, tone] = worded(g);
    let li = lines.get(g.id);
    if (!li) {
      li = el("li", {}, el("time", {title: new Date(g.at).toISOString()}, clock(g.at)), el("span"));
      if (new Date(g.at).toDateString() !== today) {
        li.firstChild.prepend(el("span", {class: "day"}, new Date(g.at).toLocaleDateString([],
          {month: "short", day: "numeric"})));
      }
      if (announced) li.className = "fresh";
      lines.set(g.id, li);
    }
    const said = li.lastChild;
    if (said.textContent !== text) {
      said.textContent = text;
      said.className = "said " + tone;
      if (announced && tone !== "aside") announce(text);
    }
    keep.add(li);
    if (li === here) here = here.nextSibling; else box.insertBefore(li, here);
  }
  for (const [id, li] of lines) if (!keep.has(li)) { li.remove(); lines.delete(id); }
  if (!groups.length) box.replaceChildren(el("li", {}, el("time"), el("span", {}, "Nothing yet.")));
  else for (const li of [...box.children]) if (!keep.has(li)) li.remove();
}

let source = null, lastIndex = 0, notBefore = 0;
// follow hears what happens while the page is seen: a hidden one gives its connection back.
async function follow() {
  if (source || document.hidden || Date.now() < notBefore) return;
  const mine = source = {close() { source = null; }};
  try {
    const all = await get("v1/events?limit=" + EVENTS, true);
    if (source !== mine) return;
    events = all;
    heard.clear();
    for (const e of events) heard.add(JSON.stringify(e));
    lastIndex = all.length ? all[all.length - 1].index : 0;
    showTimeline(false);
  } catch {
    source = null; // the poll says what is wrong, and has it tried again
    return;
  }
  source = new EventSource("v1/events?follow&after=" + (lastIndex || 1));
  source.onmessage = m => {
    const e = JSON.parse(m.data), text = JSON.stringify(e);
    if (heard.has(text)) return; // who was cut off within a transaction hears it once more
    heard.add(text);
    events.push(e);
    if (events.length > EVENTS) heard.delete(JSON.stringify(events.shift()));
    clearTimeout(follow.timer);
    follow.timer = setTimeout(() => { showTimeline(true); soon(); }, 60);
  };
  source.onerror = () => { // also when there is no place: the browser would give up on that
    unfollow();
    notBefore = Date.now() + 3000;
  };
}
function unfollow() {
  source?.close();
  source = null;
}
