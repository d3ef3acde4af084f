
// ---- with a server

// Each answer is sent at once, and kept until the server says that it is in the campaign. One request is under way at a
// time. Rows come as they are needed; one that is put off comes up again when there is no other.
const AHEAD = 4; // rows beside those put off: a page holds few from others
const EVERY = 2000; // milliseconds between requests without an answer
const LATEST = 20000;
const MOST = 50; // answers in a request, so that it is short also after an hour without a connection
const LOST = "No connection to skactive label: your answers are kept here and sent once it is back.";
const KEPT = "Your answers are kept here and sent again, as they cannot be saved now: ";

const random = () => crypto.getRandomValues(new Uint32Array(4)).join("-");
const keptAs = `${batch.key}-${random()}`;
const here = { unsent: [], later: new Set(), waits: true, busy: false, again: false, version: 0, counts: {} };

const openRows = () => [...batch.rows.keys()].filter((i) => !state.answers[i]);
const fresh = () => openRows().filter((i) => !here.later.has(i));
const after = (rows, i) => rows.find((j) => j > i) ?? rows.find((j) => j !== i);
const remarkOf = (i) => `remark-${batch.key}-${batch.rows[i].row}`;
const keep = (name, text) => tried(() => (text ? localStorage.setItem(name, text) : localStorage.removeItem(name)));
const placeOf = (row) => batch.rows.findIndex((one) => one.row === row);
const trouble = (text) => $("trouble").textContent === text || ($("trouble").textContent = text);

Object.assign(seam, {
  recall() {
    const left = tried(() => localStorage.length) ? Object.keys(localStorage) : [];
    const found = left.filter((one) => one.startsWith(batch.key));
    for (const key of found) here.unsent.push(...JSON.parse(localStorage.getItem(key))); // of a page that was closed
    seam.remember(); // before they go: nothing counts twice
    for (const key of found) localStorage.removeItem(key);
    exchange();
  },
  remember() {
    keep(keptAs, here.unsent.length && JSON.stringify(here.unsent));
    if (state.at < n) keep(remarkOf(state.at), !answerHere() && state.remarks[state.at]); // until there is an answer
  },
  save: () => say("Each answer is saved at once."),
  given(i) {
    const [{ row }, one, remark] = [batch.rows[i], state.answers[i], state.remarks[i] ?? ""];
    const { label = null } = one && !one.byOthers ? one : { label: "" }; // null skips, "" takes back
    here.unsent.push({ key: random(), row, label, at: Date.now(), remark });
    seam.remember();
    exchange();
  },
  after(i) {
    here.later[state.answers[i] ? "delete" : "add"](i);
    const to = after(fresh(), i) ?? after(openRows(), i) ?? (state.answers[i] ? n : i);
    here.waits = to === n;
    return to;
  },
  unsaved: () => here.unsent.length > 0,
  progress() {
    const { size = 0, done = 0, given = 0 } = here.counts;
    [$("bar").max, $("bar").value] = [Math.max(size, 1), done];
    return `${done} of ${size} in this batch, ${given} answers in all`;
  },
  end: (open) => [here.waits ? "The next rows are being chosen" : `${n} rows since you came`, open || "No row is open."],
});

async function exchange(leaves = false) {
  if (here.busy && !leaves) return (here.again = true);
  [here.busy, here.again] = [true, false];
  const sent = ({ key, row, label, at, remark }) => [key, row, label, Date.now() - at, remark];
  const answers = here.unsent.slice(0, MOST).map(sent);
  const rows = openRows().map((i) => batch.rows[i].row);
  const [more, waits] = [AHEAD - fresh().length, !fresh().length];
  const body = JSON.stringify({ page: keptAs, leaves, answers, rows, more, waits });
  const headers = { "Content-Type": "application/json" };
  const given = { method: "POST", headers, body, signal: AbortSignal.timeout(LATEST), keepalive: leaves };
  const reply = await fetch("exchange", given).then((found) => found.json()).catch(() => ({}));
  if (reply.answers) take(reply);
  else trouble(reply.trouble ? KEPT + reply.trouble : LOST);
  here.busy = false;
  if (here.again && reply.answers) exchange();
}

function take(reply) {
  const notes = Object.entries(reply.answers).map(([key, one]) => settle(key, one));
  here.counts = reply.counts;
  const unkept = notes.find(({ again }) => again);
  trouble(unkept ? KEPT + unkept.note : reply.trouble);
  seam.remember();
  if (reply.kind !== batch.kind && !seam.unsaved()) return location.reload();
  const [before, wasOpen] = [n, !answerHere()];
  for (const i of reply.gone.map(placeOf)) state.answers[i] ??= { label: "labelled or withdrawn by others", byOthers: true };
  for (const row of reply.rows) {
    const i = batch.rows.push(row) - 1;
    state.answers[i] = null;
    tried(() => (state.remarks[i] = localStorage.getItem(remarkOf(i))));
  }
  n = batch.rows.length;
  widen();
  const added = reply.names.filter((name) => !labels().includes(name));
  state.added.push(...added);
  if (added.length && !$("field").value) showLabels(); // buttons made anew lose the focus, and a click that is under way
  arrange(before, wasOpen && answerHere());
  if (reply.panel.version > here.version) showPanel(reply.panel);
  const { note } = notes.find((one) => one.note && !one.again) ?? {};
  if (note) say(note);
}

// An answer that the server has dealt with; one that it refuses opens its row again.
function settle(key, reply) {
  const one = here.unsent.find((unsent) => unsent.key === key);
  if (!one || reply.again) return reply;
  here.unsent = here.unsent.filter((unsent) => unsent !== one);
  if (!reply.saved && placeOf(one.row) >= 0) state.answers[placeOf(one.row)] = null;
  return reply;
}

// What is shown once rows came or went; what somebody is typing stays.
function arrange(before, isLost) {
  const [next, wasEnd] = [after(fresh(), -1) ?? after(openRows(), -1), state.at === before];
  const came = here.waits && next !== undefined;
  if (came) here.waits = false;
  if (isLost || (wasEnd && came)) return go(next ?? n);
  if (wasEnd) state.at = n;
  showProgress();
  if (n !== before && wasEnd) showOverview();
}

function showPanel({ version, head, lines, curve: [svg, alt] }) {
  here.version = version;
  const src = `data:image/svg+xml,${encodeURIComponent(svg)}`;
  $("curve").replaceChildren(...(svg ? [make("img", { src, alt })] : []));
  $("panel").hidden = false;
  const unbroken = (text) => text.replaceAll(" %", "\u00a0%"); // a number stays with its sign
  $("head").textContent = unbroken(head);
  $("lines").replaceChildren(...lines.map((line) => make("li", { dir: "auto" }, unbroken(line))));
}

for (const id of ["save", "finish"]) $(id).hidden = true;
$("next").replaceChildren("Later ", make("kbd", {}, "\u2192"));
$("panel").open = matchMedia("(min-width: 70rem)").matches;
document.body.className = "live";
commands.l = next;
setInterval(() => exchange(), EVERY);
for (const name of ["online", "pageshow"]) addEventListener(name, () => exchange());
addEventListener("pagehide", () => $("remark").blur()); // what changed after the answer is sent
addEventListener("pagehide", () => exchange(true));
