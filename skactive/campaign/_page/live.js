
// ---- with a server

// Each answer is sent at once, and kept until the server says that it is in the campaign. One request is under way at a
// time. Rows come as they are needed; one that is put off comes up again when no other is there.
const AHEAD = 4; // rows beside those put off: a page that is closed holds few from others
const EVERY = 2000; // milliseconds
const LATEST = 20000;
const newName = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, "0")).join("");
const page = newName();
const here = { unsent: [], later: new Set(), waits: true, off: false, busy: false, again: false, version: 0, size: 0, done: 0, given: 0 };

const openRows = () => [...batch.rows.keys()].filter((i) => !state.answers[i]);
const fresh = (rows) => rows.filter((i) => !here.later.has(i));
const inTurn = (rows, i) => rows.find((j) => j > i) ?? rows[0];

Object.assign(seam, {
  recall() {
    for (const key of tried(() => localStorage.length) ? Object.keys(localStorage) : []) {
      if (!key.startsWith(batch.key)) continue;
      here.unsent.push(...JSON.parse(localStorage.getItem(key))); // of a page that was closed: no answer counts twice
      localStorage.removeItem(key);
    }
    seam.remember();
    exchange();
  },
  remember() {
    const [key, kept] = [`${batch.key}-${page}`, JSON.stringify(here.unsent)];
    tried(() => (here.unsent.length ? localStorage.setItem(key, kept) : localStorage.removeItem(key)));
  },
  save: () => say("Each answer is saved as it is given."),
  given(i) {
    here.unsent.push({ key: newName(), row: batch.rows[i].row, label: state.answers[i].label ?? null, at: Date.now() });
    exchange();
  },
  takeBack: () => {},
  after(i) {
    state.answers[i] ? here.later.delete(i) : here.later.add(i);
    const others = openRows().filter((j) => j !== i);
    const to = inTurn(fresh(others), i) ?? inTurn(others, i) ?? (state.answers[i] ? n : i);
    here.waits = to === n;
    return to;
  },
  unsaved: () => here.unsent.length > 0,
  words() {
    const given = answerHere();
    if (!given) return "";
    return `${given.gone ?? `Given: ${given.skip ? "skipped" : given.label}`}. Another answer replaces it.`;
  },
  place: () => `Row ${state.at + 1}`,
  progress() {
    $("bar").max = Math.max(here.size, 1);
    $("bar").value = here.done;
    return `${here.done} of ${here.size} in this batch, ${here.given} answers in all`;
  },
  end: (open) => [here.waits ? "The next rows are being chosen" : `${n} rows since you came`, open || "No row is open."],
});

async function exchange(leaves = false) {
  if (here.busy && !leaves) return (here.again = true);
  here.busy = true;
  try {
    take(await said(leaves));
  } catch (error) {
    troubled(error.message);
  }
  here.busy = false;
  if (here.again && !here.off) exchange();
}

async function said(leaves) {
  here.again = false;
  const answers = here.unsent.map(({ at, ...one }) => ({ ...one, age: (Date.now() - at) / 1000 }));
  const rows = openRows().map((i) => batch.rows[i].row);
  const body = JSON.stringify({ page, leaves, answers, rows, more: AHEAD - fresh(openRows()).length });
  const headers = { "Content-Type": "application/json" };
  const signal = AbortSignal.timeout(LATEST);
  const found = await fetch("exchange", { method: "POST", headers, body, signal, keepalive: leaves }).catch(() => null);
  const reply = await found?.json().catch(() => null);
  if (found?.ok && reply) return reply;
  throw Error(reply?.trouble ?? "No connection to skactive label: what you answer is kept here, and sent once it is back.");
}

function troubled(text) {
  here.off = true;
  if ($("trouble").textContent !== text) $("trouble").textContent = text;
}

function take(reply) {
  here.off = false;
  const notes = Object.entries(reply.answers).map(([key, one]) => settle(key, one));
  Object.assign(here, { size: reply.size, done: reply.done, given: reply.given });
  const waited = notes.find((one) => one?.again)?.note ?? reply.trouble;
  if ($("trouble").textContent !== waited) $("trouble").textContent = waited;
  if (reply.kind !== batch.kind && !here.unsent.length) return location.reload();
  const lost = answerHere();
  for (const i of reply.gone.map(placeOf)) state.answers[i] ??= { gone: "Labelled or put back by others" };
  const wasEnd = state.at === n;
  for (const row of reply.rows) state.answers[batch.rows.push(row) - 1] = null;
  n = batch.rows.length;
  if (reply.rows.length) widen();
  seam.remember();
  arrange(wasEnd, !wasEnd && !lost && answerHere()?.gone);
  learn(reply.labels);
  if (reply.panel.version > here.version) showPanel(reply.panel);
  const note = notes.find((one) => one?.note && !one.again)?.note;
  if (note) say(note);
}

const placeOf = (row) => batch.rows.findIndex((one) => one.row === row);

// An answer that the server has dealt with; one that it refuses opens its row again.
function settle(key, reply) {
  const one = here.unsent.find((unsent) => unsent.key === key);
  if (!one || reply.again) return reply;
  here.unsent = here.unsent.filter((unsent) => unsent !== one);
  const i = placeOf(one.row);
  if (!reply.saved && i >= 0 && !here.unsent.some(({ row }) => row === one.row)) state.answers[i] = null;
  return reply;
}

// What is shown once rows came or went; what somebody is typing stays.
function arrange(wasEnd, isLost) {
  const next = inTurn(fresh(openRows()), -1) ?? openRows()[0];
  if (wasEnd && here.waits && next !== undefined) go(next);
  else if (wasEnd) [state.at] = [n, show()];
  else if (isLost) go(state.at);
  else showProgress();
}

function learn(names) {
  const added = names.filter((name) => !labels().includes(name));
  state.added.push(...added);
  if (added.length && state.at < n && !$("field").value) showLabels();
}

// ---- how good the model is

function showPanel({ version, head, beside, verdict, lines, disputes, curve }) {
  here.version = version;
  $("panel").hidden = false;
  $("head").textContent = (verdict === "stop" ? "You can stop. " : "") + (head || "How good the model is cannot be told yet");
  $("beside").textContent = beside;
  $("curve").replaceChildren(...(curve.length > 1 ? [drawn(curve)] : []));
  const disagreed = disputes.map((line) => `Not agreed: ${line}`);
  $("lines").replaceChildren(...[...lines, ...disagreed].map((line) => make("li", { dir: "auto" }, line)));
}

function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// The learning curve: values by the number of labels, over a band of their intervals.
function drawn(curve) {
  const [most, highest] = [curve.at(-1)[0], Math.max(1, ...curve.map(([, value, , high]) => high ?? value))];
  const place = (labels, value) => `${30 + (250 * labels) / most},${110 - (100 * value) / highest}`;
  const band = [...curve.map(([k, , low]) => place(k, low)), ...curve.map(([k, v, , high]) => place(k, high ?? v)).reverse()];
  const words = `By the number of labels: ${curve.map(([k, value]) => `${k}: ${value.toPrecision(2)}`).join(", ")}`;
  return svg(
    "svg",
    { viewBox: "0 0 290 125", role: "img", "aria-label": words },
    svg("polygon", { points: band.join(" "), class: "band" }),
    svg("polyline", { points: curve.map(([k, value]) => place(k, value)).join(" ") }),
    svg("path", { d: "M30 10V110H280" }),
    svg("text", { x: 26, y: 16 }, highest.toPrecision(2)),
    svg("text", { x: 26, y: 112 }, "0"),
    svg("text", { x: 280, y: 123 }, `${most} labels`),
  );
}

for (const id of ["save", "finish"]) $(id).hidden = true;
$("next").replaceChildren("Later ", make("kbd", {}, "\u2192"));
$("panel").open = matchMedia("(min-width: 70rem)").matches;
document.body.className = "live";
commands.l = next;
setInterval(() => exchange(), EVERY);
for (const name of ["online", "pageshow"]) addEventListener(name, () => exchange());
addEventListener("pagehide", () => exchange(true));
