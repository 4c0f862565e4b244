// Tiles that have moved travel.

const FLIGHT = 850; // ms for which a tile travels
const FLYING = 500; // so many travel at one time at the most

// place is where an item's tile is, in the page.
function place(row, item) {
  let r;
  if (total <= LABELLED) {
    const c = row.tiles.querySelector('[data-item="' + CSS.escape(item) + '"]');
    if (!c) return null;
    r = c.getBoundingClientRect();
    return {x: r.left + scrollX, y: r.top + scrollY, w: r.width, h: r.height};
  }
  const i = indexIn(row, item);
  if (!row.canvas || i < 0) return null;
  r = row.canvas.getBoundingClientRect();
  const size = row.side - 1;
  return {x: r.left + scrollX + i % row.columns * row.side,
    y: r.top + scrollY + Math.floor(i / row.columns) * row.side, w: size, h: size};
}

// indexIn is the place of an item among those of a row, which are in order.
function indexIn(row, item) {
  let low = 0, high = row.held.length;
  while (low < high) {
    const middle = low + high >> 1;
    if (naturally(row.held[middle][0], item) < 0) low = middle + 1; else high = middle;
  }
  return low < row.held.length && row.held[low][0] === item ? low : -1;
}

// leaving notes where the tiles are that are about to travel: of those that begin or end in sight,
// and no more than can be followed.
function leaving(news, next, resized) {
  const from = [];
  if (!where || still.matches || document.hidden || resized) return from;
  const found = [], rowAt = id => rows.get(id || FREE);
  for (const item of news) {
    const was = where.get(item), to = next.get(item);
    if (was !== undefined && (rowAt(was)?.seen || rowAt(to)?.seen)) found.push([item, was, to]);
  }
  const step = Math.max(1, Math.ceil(found.length / (FLYING - flights.length || 1)));
  for (let i = 0; i < found.length && flights.length + from.length < FLYING; i += step) {
    const [item, was, to] = found[i], row = rowAt(was);
    const at = row && place(row, item);
    if (at) from.push({item, from: at, to: to || FREE});
  }
  return from;
}

// land shows rows that have changed. The tiles that travel there appear when they arrive.
function land(travel, changed) {
  for (const row of changed) {
    if (total > LABELLED) sizeGrid(row); else fillTiles(row);
  }
  const found = [];
  for (const f of travel) {
    const row = rows.get(f.to), to = row && place(row, f.item);
    if (to) found.push({...f, row, to, kind: stateOf(row.held[indexIn(row, f.item)][1])[0]});
  }
  if (found.length) fly(found);
  for (const row of total > LABELLED ? changed : new Set(found.map(f => f.row))) fillTiles(row);
}

let flights = [];
// fly lets tiles travel: each has from, to and a row to land in.
function fly(all) {
  const sky = $("sky"), start = performance.now();
  all.forEach((f, i) => {
    f.start = start + 350 * i / all.length;
    arriving.add(f.item);
  });
  const idle = !flights.length;
  flights.push(...all);
  if (!idle) return;
  const ratio = devicePixelRatio || 1;
  sky.width = innerWidth * ratio;
  sky.height = innerHeight * ratio;
  const landed = new Set();
  let drawn = 0;
  requestAnimationFrame(function frame(t) {
    const g = sky.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, -scrollX * ratio, -scrollY * ratio);
    g.clearRect(scrollX, scrollY, innerWidth, innerHeight);
    g.globalAlpha = .92;
    flights = flights.filter(f => {
      const part = Math.max(0, Math.min(1, (t - f.start) / FLIGHT));
      if (part === 1) {
        arriving.delete(f.item);
        landed.add(f.row);
        return false;
      }
      const p = part < .5 ? 4 * part ** 3 : 1 - (2 - 2 * part) ** 3 / 2;
      const at = k => f.from[k] + (f.to[k] - f.from[k]) * p;
      const arc = Math.sin(Math.PI * p) * Math.min(40, Math.abs(f.to.y - f.from.y) / 6);
      const x = at("x") + arc, y = at("y"), w = at("w"), h = at("h");
      if (y + h < scrollY || y > scrollY + innerHeight) return true;
      g.fillStyle = css("--" + f.kind);
      if (w < 12) { // a square: many of them are drawn at once
        g.fillRect(x, y, w, h);
        return true;
      }
      g.beginPath();
      g.roundRect(x, y, w, h, 3);
      g.fill();
      return true;
    });
    if (!flights.length || t - drawn > 120) { // a row may have thousands
      drawn = t;
      for (const row of landed) fillTiles(row);
      landed.clear();
    }
    if (flights.length) requestAnimationFrame(frame);
    else g.clearRect(scrollX, scrollY, innerWidth, innerHeight);
  });
}
