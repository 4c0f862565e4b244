// What may be done with members, where this coordd offers something: buttons in their rows.

const ACTS = document.body.dataset.acts !== undefined;
let acts = new Map(); // member -> what is offered for it

// offered asks what is offered. What has not changed is undefined.
async function offered() {
  const all = ACTS ? await get("v1/actions") : undefined;
  if (all) acts = new Map(all.map(m => [m.member, m]));
  return all;
}
const doneTo = id => (acts.get(id) || {}).state || "";

function fillActs(row) {
  const of = acts.get(row.id), key = JSON.stringify([of, row.refused]);
  if (!of || row.acted === key) return;
  row.acted = key;
  const focused = row.acts.contains(document.activeElement) ?
    [...row.acts.children].indexOf(document.activeElement) : -1;
  row.acts.setAttribute("role", "group");
  row.acts.setAttribute("aria-label", "What may be done with " + row.id);
  row.acts.replaceChildren(...of.actions.map(a => el("button", {type: "button",
    "aria-label": a.label + " " + row.id, title: a.hint, "data-action": a.name,
    onclick: () => act(row, a)}, a.label)),
  ...(row.refused ? [el("span", {class: "refused"}, row.refused)] : []));
  // The button that was pressed may be another one now: who is at the keyboard stays in its place.
  const buttons = row.acts.querySelectorAll("button");
  if (focused >= 0 && buttons.length) buttons[Math.min(focused, buttons.length - 1)].focus();
}

async function act(row, a) {
  row.refused = "";
  try {
    const answer = await fetch("v1/members/" + encodeURIComponent(row.id) + "/actions/" + a.name,
      {method: "POST", signal: AbortSignal.timeout(15000)});
    if (!answer.ok) throw new Error((await answer.json()).error, {cause: "said"});
  } catch (e) {
    row.refused = sentence(e.cause === "said" ? e.message : "This coordd does not answer");
  }
  announce(row.refused || row.id + ": " + a.label);
  fillActs(row);
  soon();
}
