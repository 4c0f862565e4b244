// Items as tiles: elements with their ids up to LABELLED of them, squares on canvases above that.

const LABELLED = 1200;
const FRESH = 5000;   // ms for which a tile that has moved stands out

let total = 0;              // items that there are
let head = "";              // what most ids begin with: a tile leaves it out
let asked = "";             // what is looked for, in lower case
const moved = new Map();    // item -> when it moved
const arriving = new Set(); // items whose tiles travel

// The head that most ids share, up to their last separator.
function commonHead(ids) {
  const heads = new Map();
  let best = "";
  for (const id of ids) {
    const cut = Math.max(...["_", "-", ".", ":", " "].map(c => id.lastIndexOf(c))) + 1;
    if (cut > 0 && cut < id.length) {
      const h = id.slice(0, cut);
      heads.set(h, (heads.get(h) || 0) + 1);
    }
  }
  for (const [h, n] of heads) if (n > (heads.get(best) || 0)) best = h;
  return 2 * (heads.get(best) || 0) > ids.length && ids.length > 1 ? best : "";
}

// alive tells whether an item that has moved is in good hands: only then does it stand out.
const alive = (item, state) => moved.has(item) && ["run", "start"].includes(stateOf(state)[0]);
const dimmed = item => asked !== "" && !item.toLowerCase().includes(asked);

// fillTiles shows what a row has. Squares are drawn when they are in sight.
function fillTiles(row) {
  if (total > LABELLED) {
    sizeGrid(row);
    return drawTiles(row);
  }
  const box = row.tiles;
  row.canvas = null;
  box.querySelector("canvas")?.remove();
  const have = new Map([...box.children].map(c => [c.dataset.item, c]));
  let place = box.firstChild;
  for (const [item, state] of row.held) {
    let c = have.get(item);
    have.delete(item);
    if (!c) c = el("button", {type: "button", tabIndex: -1, "data-item": item});
    const [kind, name, word] = stateOf(state);
    const short = head && item.startsWith(head) ? item.slice(head.length) : item;
    const text = word ? short + " " + word : short;
    const cls = "tile " + kind + (alive(item, state) ? " new" : "") +
      (dimmed(item) ? " dim" : "") + (arriving.has(item) ? " arriving" : "");
    if (c.textContent !== text) c.textContent = text;
    if (c.className !== cls) c.className = cls;
    const label = word ? item + " " + word : item + ": " + name; // it has in it what is seen
    if (c.title !== label) {
      c.title = label;
      c.setAttribute("aria-label", label);
    }
    if (c === place) place = c.nextSibling; else box.insertBefore(c, place);
  }
  for (const c of have.values()) c.remove();
  if (box.firstChild && !box.querySelector('[tabindex="0"]')) box.firstChild.tabIndex = 0;
}

const colours = new Map();
function css(name) {
  if (!colours.has(name)) {
    colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  }
  return colours.get(name);
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  colours.clear();
  redraw();
});

const gridLabel = row => row.name + ": " + count(row.held.length, "item") +
  ". Arrow keys go from item to item, Enter opens one.";

// All rows are equally wide: one is measured, and once more when the width has changed.
let measured = null; // {box: width of all rows, tiles: that of a row's tiles}
new ResizeObserver(([box]) => {
  if (!measured || measured.box === box.contentRect.width) return;
  measured = null;
  requestAnimationFrame(redraw);
}).observe($("members"));
function widthOf(row) {
  if (!measured) {
    const tiles = row.tiles.clientWidth;
    if (!tiles) return 600;
    measured = {box: $("members").getBoundingClientRect().width, tiles};
  }
  return measured.tiles;
}

// sizeGrid gives a row's canvas the place that it takes. What it shows is drawn later.
function sizeGrid(row) {
  if (!row.held.length) {
    row.canvas = null;
    return row.tiles.replaceChildren();
  }
  let canvas = row.canvas;
  if (!canvas) {
    canvas = row.canvas = el("canvas", {class: "grid", tabIndex: 0, role: "application"});
    row.tiles.replaceChildren(canvas);
    canvas.row = row;
  }
  const label = gridLabel(row);
  if (canvas.getAttribute("aria-label") !== label) canvas.setAttribute("aria-label", label);
  const side = total <= 3000 ? 13 : total <= 20000 ? 9 : 5;
  const columns = Math.max(1, Math.floor(widthOf(row) / side));
  const width = columns * side, height = Math.ceil(row.held.length / columns) * side;
  if (row.side === side && row.columns === columns && row.height === height &&
      canvas.style.height) {
    return;
  }
  Object.assign(row, {side, columns, height});
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
}

// Rows that are in sight, or nearly, are drawn; the others when they come there.
const sight = new IntersectionObserver(all => {
  for (const {target, isIntersecting} of all) {
    const row = target.row;
    row.seen = isIntersecting;
    if (row.seen && row.stale) drawTiles(row);
  }
}, {rootMargin: "400px 0px"});

function drawTiles(row) {
  const canvas = row.canvas;
  row.stale = !row.seen;
  if (row.stale || !canvas) return;
  const {side, columns, height} = row, width = columns * side, ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const g = canvas.getContext("2d"), size = side - (side > 6 ? 2 : 1);
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  let style = "";
  row.held.forEach(([item, state], i) => {
    if (arriving.has(item)) return;
    const kind = stateOf(state)[0], x = i % columns * side, y = Math.floor(i / columns) * side;
    g.globalAlpha = dimmed(item) ? .15 : 1;
    const colour = css(alive(item, state) ? "--good" : "--" + kind);
    if (colour !== style) g.fillStyle = style = colour;
    // The states differ by shape too: what is hollow is not known to run, and what loops
    // has a hole.
    if (size > 4 && ["own", "wait", "free"].includes(kind)) {
      g.fillRect(x, y, size, size);
      g.clearRect(x + 2, y + 2, size - 4, size - 4);
    } else {
      g.fillRect(x, y, size, size);
      if (size > 4 && kind === "loop") g.clearRect(x + size / 2 - 1, y + size / 2 - 1, 2, 2);
      if (size > 4 && kind === "stop") g.clearRect(x, y, size, size / 2 - 1);
    }
  });
  g.globalAlpha = 1;
  if (row.cursor !== undefined && document.activeElement === canvas) {
    const i = row.cursor = Math.min(row.cursor, row.held.length - 1);
    g.strokeStyle = css("--ink");
    g.lineWidth = 2;
    g.strokeRect(i % columns * side, Math.floor(i / columns) * side, size, size);
  }
}

// itemAt is the item of a canvas under the pointer.
function itemAt(canvas, e) {
  const {side, columns, held} = canvas.row, column = Math.floor(e.offsetX / side);
  return column < columns ? held[Math.floor(e.offsetY / side) * columns + column] : undefined;
}
function tip(text, x, y) {
  const t = $("tip");
  t.style.display = text ? "block" : "none";
  if (!text) return;
  t.textContent = text;
  t.style.left = Math.max(4, Math.min(x + 12, innerWidth - t.offsetWidth - 4)) + "px";
  t.style.top = y + 16 + "px";
}
const named = hit => hit[0] + ": " + stateOf(hit[1])[1];
$("members").addEventListener("mousemove", e => {
  const hit = e.target.row && itemAt(e.target, e);
  tip(hit ? named(hit) : "", e.clientX, e.clientY);
});
$("members").addEventListener("mouseleave", () => tip(""));
$("members").addEventListener("click", e => {
  const hit = e.target.row && itemAt(e.target, e);
  if (hit) openItem(hit[0]);
  else if (e.target.dataset.item !== undefined) openItem(e.target.dataset.item);
  else if (e.target.dataset.member !== undefined) openMember(e.target.dataset.member);
});
// Arrow keys go among the tiles of a member; one of them is in the order of tabs.
$("members").addEventListener("keydown", e => {
  const step = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: 2, ArrowUp: -2, Home: -Infinity,
    End: Infinity}[e.key];
  const canvas = e.target.row;
  if (canvas) {
    const row = canvas, last = row.held.length - 1;
    if (e.key === "Enter") return openItem(row.held[row.cursor || 0][0]);
    if (step === undefined) return;
    const by = Math.abs(step) === 2 ? step / 2 * row.columns : step;
    row.cursor = row.cursor === undefined ? 0 : Math.max(0, Math.min(last, row.cursor + by));
    drawTiles(row);
    announce(named(row.held[row.cursor]));
    const at = e.target.getBoundingClientRect();
    tip(named(row.held[row.cursor]), at.left + row.cursor % row.columns * row.side,
      at.top + Math.floor(row.cursor / row.columns) * row.side);
    return e.preventDefault();
  }
  if (e.target.dataset.item === undefined || step === undefined) return;
  const all = [...e.target.parentNode.children], i = all.indexOf(e.target);
  const next = all[Math.max(0, Math.min(all.length - 1, i + Math.sign(step) *
    (Number.isFinite(step) ? 1 : all.length)))];
  e.target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
  e.preventDefault();
});
$("members").addEventListener("focusout", e => {
  if (!e.target.row) return;
  tip("");
  drawTiles(e.target.row);
});
