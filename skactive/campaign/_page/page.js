
"use strict";

// One card for each row, a list of all rows at the end, and a CSV to save; or, with live.js behind, a server that takes
// answers and sends rows. Everything shown enters the document as text, never as markup. Python writes the batch, {key,
// title, id, target, kind, open, numeric, labels, marks, columns, rows}: a row is {id, cells, guess}, and a cell is
// null (missing), text, or an image {src, text}.
const batch = JSON.parse(document.getElementById("batch").textContent);
const [separator, mark] = batch.marks;
let n = batch.rows.length;

const $ = (id) => document.getElementById(id);

function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

// ---- what the person did, kept by the browser

// answers: of each row null (open), {label} or {skip: true}. remarks: texts by row. added: labels typed by the person.
// past: what undo takes back. at: the row shown, n for the list of all rows. saved: the CSV as it was last saved. steps:
// how often this was kept.
let state = { answers: Array(n).fill(null), remarks: {}, added: [], past: [], at: 0, saved: "", steps: 0 };

// The store of the browser lasts, but can be blocked, and in Chromium 156 it was seen to be empty for one load just
// after the browser had started. The history holds over a reload. Whichever saw more steps is right, and neither is
// written before the person does something.
function recall() {
  const kept = [history.state?.[batch.key]];
  $("forgetful").hidden = tried(() => {
    kept.push(JSON.parse(localStorage.getItem(batch.key)));
    localStorage.setItem("skactive", "keeps");
  });
  for (const one of kept) if (one?.steps > state.steps) state = { ...state, ...one };
}

function remember() {
  state.steps += 1;
  tried(() => history.replaceState({ [batch.key]: state }, ""));
  $("forgetful").hidden = tried(() => localStorage.setItem(batch.key, JSON.stringify(state)));
}

function tried(storing) {
  try {
    storing();
    return true;
  } catch {
    return false;
  }
}

const labels = () => [...new Set([...batch.labels, ...state.added])];

// The key of each label that has one. A label that is a digit has that digit, so that 1 never means "0"; the others get
// what is left of 1 to 9, in order. A label that is added later changes no key.
function keys() {
  const free = new Set("0123456789");
  const taken = new Map();
  const give = (label, key) => free.delete(key) && taken.set(label, key);
  const digit = (label) => /^(\d)(\.0)?$/.exec(label)?.[1];
  const rest = (label) => taken.has(label) || give(label, [...free].find((key) => key !== "0"));
  for (const label of batch.labels) give(label, digit(label));
  for (const label of batch.labels) rest(label);
  for (const label of state.added) taken.has(label) || give(label, digit(label)) || rest(label);
  return taken;
}

const crowded = () => keys().size < labels().length;
const answerHere = () => state.answers[state.at];
const labelHere = () => answerHere()?.label ?? "";
const count = (test) => state.answers.filter(test).length;

// Where answers go, and rows come from: a file that the person saves. live.js puts a server in its place.
const seam = {
  recall,
  remember,
  save,
  given: () => {}, // an answer to this row, or none any more
  after: (row) => row + 1,
  unsaved: () => state.answers.some(Boolean) && csv() !== state.saved,
  progress() {
    const [labelled, skipped] = [count((a) => a && !a.skip), count((a) => a?.skip)];
    $("bar").max = n;
    $("bar").value = labelled + skipped;
    return `${labelled} of ${n} labelled` + (skipped ? `, ${skipped} skipped` : "");
  },
  end: (open) => [`All ${n} rows`, open ? `${open} You can save now and go on later.` : "All rows are done. Save the labels."],
};

function answer(value) {
  state.past.push({ row: state.at, answer: answerHere(), added: state.added.length });
  state.answers[state.at] = value;
  if (batch.kind === "classes" && !value.skip && !labels().includes(value.label)) state.added.push(value.label);
  seam.given(state.at);
  go(seam.after(state.at));
}

function undo() {
  const last = state.past.pop();
  if (!last) return say("There is nothing to take back on this page.");
  if (state.added[last.added] === state.answers[last.row]?.label) state.added.splice(last.added, 1);
  state.answers[last.row] = last.answer;
  go(last.row);
  seam.given(last.row);
  say("Your last answer is taken back.");
}

// ---- saving

function csv() {
  const isPlain = (text) => !/[",;|\t\r\n]/.test(text) && !text.includes(separator);
  const field = (text) => (isPlain(text) ? text : `"${text.replaceAll('"', '""')}"`);
  const given = (i) => [state.answers[i]?.label ?? "", state.answers[i]?.skip ? "1" : "", state.remarks[i] ?? ""];
  const lines = [[batch.id, batch.target, "skip", "remark"], ...batch.rows.map(({ id }, i) => [id, ...given(i)])];
  const width = Object.values(state.remarks).some(Boolean) ? 4 : 3;
  return lines.map((line) => line.slice(0, width).map(field).join(separator) + "\r\n").join("");
}

function fileName() {
  let name = location.pathname.split("/").pop();
  tried(() => (name = decodeURIComponent(name))); // what cannot be decoded stays as it is
  return `${name.replace(/\.html?$/i, "") || "rows"}_labelled.csv`;
}

function save() {
  if (halfTyped()) return;
  const href = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
  make("a", { href, download: fileName() }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60000);
  const file = state.saved ? `the newest ${fileName()}` : fileName(); // a browser adds (1) to a name it knows
  state.saved = csv();
  seam.remember();
  showProgress();
  say(`Saved: look for ${file} in your downloads. Give that file to the person who sent you this page.`);
}

// ---- moving

// The second click of a double click is not for the row that came up after the first.
const once = (act) => (event) => event.detail < 2 && act();

const say = (text) => ($("message").textContent = text);

function halfTyped() {
  const text = $("field").value.trim();
  const half = state.at < n && text !== "" && text !== (batch.kind === "number" ? labelHere() : "");
  if (half) say(`You typed ${text}. Press Enter in the field to keep it, or Escape to drop it.`);
  return half;
}

function go(at) {
  state.at = Math.min(Math.max(at, 0), n);
  seam.remember();
  arrive();
}

function arrive() {
  say("");
  show();
  scrollTo(0, 0);
  const typing = batch.kind === "number" || labels().length === 0;
  const first = state.at === n ? ($("finish").hidden ? $("end") : $("finish")) : typing ? $("field") : $("place");
  first.focus({ preventScroll: true });
  if (first === $("field")) first.select();
}

function move(at) {
  if (!halfTyped()) go(at);
}

// ---- showing

function show() {
  const end = state.at === n;
  $("card").hidden = end;
  $("overview").hidden = !end;
  $("labels").hidden = end || batch.kind === "number";
  $("typed").hidden = end || (batch.kind === "classes" && !batch.open && !crowded());
  for (const id of ["skip", "next"]) $(id).hidden = end;
  $("back").disabled = state.at === 0;
  $("undo").disabled = !state.past.length;
  $("skip").setAttribute("aria-pressed", String(Boolean(answerHere()?.skip)));
  $("peek").hidden = end || !batch.rows[state.at].guess;
  $("field").value = batch.kind === "number" && !end ? labelHere() : "";
  $("remark").value = state.remarks[state.at] ?? "";
  showProgress();
  if (end) showOverview();
  else showCard();
}

function showProgress() {
  $("progress").textContent = seam.progress();
  $("unsaved").hidden = !seam.unsaved();
}

// A column gets the whole width in every row if it needs it in one.
let wide;
function widen() {
  wide = batch.columns.map((_, j) =>
    batch.rows.some(({ cells }) => cells[j]?.src || cells[j]?.length > 32 || cells[j]?.includes?.("\n")),
  );
}

function showCard() {
  const row = batch.rows[state.at];
  const id = make("span", { className: "muted", dir: "auto" }, `${batch.id} ${row.id}`);
  $("place").replaceChildren(`Row ${state.at + 1} of ${n} \u00b7 `, id);
  $("cells").replaceChildren(
    ...batch.columns.map((name, j) =>
      make(
        "div",
        { className: wide[j] ? "wide" : "" },
        make("dt", { dir: "auto" }, name),
        make("dd", { dir: "auto" }, shown(row.cells[j])),
      ),
    ),
  );
  showLabels();
}

function shown(cell) {
  if (cell?.src) return picture(cell);
  if (cell?.trim()) return cell;
  const [sign, words] = cell === null ? ["\u2013", "no value"] : ["(empty)", ""];
  return make("span", { className: "missing" }, sign, make("span", { className: "unseen" }, words));
}

function picture({ src, text }) {
  const image = make("img", { src, alt: text });
  image.onload = () => image.classList.toggle("tiny", image.naturalHeight < 100);
  image.onerror = () => image.replaceWith(text, make("span", { className: "muted" }, " (no image there)"));
  return image;
}

function showLabels() {
  if (batch.kind === "number") return;
  const text = $("field").value.trim();
  const taken = text && wouldTake(text);
  const known = keys();
  $("labels").replaceChildren(
    ...fitting(text).map((label) => {
      const key = label === taken ? "Enter" : text ? "" : known.get(label);
      const button = make("button", { type: "button", onclick: once(() => answer({ label })) });
      if (key) button.append(make("kbd", {}, key));
      button.append(make("bdi", {}, label));
      button.setAttribute("aria-pressed", String(label === labelHere()));
      return button;
    }),
  );
  const words = crowded() ? (batch.open ? "Find or add " : "Find ") : "Another label ";
  $("asked").replaceChildren(words, make("kbd", {}, "N"));
  $("enter").hidden = !batch.open;
  $("enter").disabled = !text || labels().includes(text);
  $("enter").replaceChildren(text ? `Add \u201c${text}\u201d ` : "Add");
  if (text && !taken) $("enter").append(make("kbd", {}, "Enter"));
}

function showOverview() {
  const open = count((a) => !a);
  const words = open && `${open} ${open === 1 ? "row is" : "rows are"} still open.`;
  [$("end").textContent, $("todo").textContent] = seam.end(words);
  $("open").hidden = !open;
  $("list").replaceChildren(
    ...batch.rows.map((row, i) => {
      const given = state.answers[i];
      const [words, kind] = given?.skip ? ["skipped", "skipped"] : given ? [given.label, ""] : ["open", "still-open"];
      const parts = [
        make("span", {}, `${i + 1}.`),
        make("bdi", {}, row.id),
        make("span", { className: "snippet", dir: "auto" }, snippet(row)),
        make("span", { className: `answer ${kind}`, dir: "auto" }, words),
      ];
      return make("li", {}, make("button", { type: "button", onclick: () => go(i) }, ...parts));
    }),
  );
}

// The first long text of a row, else its first value.
function snippet({ cells }) {
  const j = wide.findIndex((isWide, k) => isWide && cells[k] !== null);
  const cell = j < 0 ? cells.find((value) => value !== null) : cells[j];
  return (cell?.text ?? cell ?? "").slice(0, 200);
}

// ---- the field: a number, or a label to find or to add

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const withPoint = (text) => (mark === "," ? text.replace(".", "?").replace(",", ".") : text);
const number = (text) => (NUMBER.test(withPoint(text)) ? Number(withPoint(text)) : NaN);
const isNumber = (text) => Number.isFinite(number(text));
const same = (a, b) => a.toLowerCase() === b.toLowerCase() || (batch.numeric && number(a) === number(b));
const holds = (label, text) => label.toLowerCase().includes(text.toLowerCase());
const fitting = (text) => labels().filter((label) => holds(label, text) || same(label, text));

// The label known that Enter takes: the one typed; where labels are more than keys, or no more may be added, the first
// that begins with or holds what was typed.
function wouldTake(text) {
  const known = labels().find((label) => label === text) ?? labels().find((label) => same(label, text));
  if (known !== undefined || (batch.open && !crowded())) return known;
  const some = fitting(text);
  return some.find((label) => label.toLowerCase().startsWith(text.toLowerCase())) ?? some[0];
}

function takeTyped() {
  const text = $("field").value.trim();
  if (!text) return batch.kind === "number" ? say("Type a number, or skip the row.") : $("place").focus();
  if (batch.kind === "number") return isNumber(text) ? answer({ label: text }) : say(notANumber(text));
  const known = wouldTake(text);
  if (known !== undefined) return answer({ label: known });
  return batch.open ? add(text) : say("There is no such label.");
}

function add(text) {
  if (batch.numeric && !isNumber(text)) return say(notANumber(text));
  answer({ label: text });
}

const sign = mark === "," ? "comma" : "point";
const notANumber = (text) => `${text} is not a number. Write it like 12 or -3${mark}5, with a ${sign}.`;

// ---- keys and buttons

function peek() {
  if (state.at === n || !batch.rows[state.at].guess) return;
  say(`The model's guess: ${batch.rows[state.at].guess}`);
}

const leaveRemark = () => (batch.kind === "number" ? $("field") : $("place")).focus();
const next = () => state.at < n && move(seam.after(state.at));
const skip = () => state.at < n && answer({ skip: true });

const commands = {
  s: skip,
  u: undo,
  g: peek,
  o: () => move(n),
  n: () => state.at < n && $("field").focus(),
  r: () => state.at < n && $("remark").focus(),
  Backspace: undo,
  ArrowLeft: () => move(state.at - 1),
  ArrowRight: next,
};

function commandOf(event) {
  const { key, code, shiftKey, target } = event;
  if (target === $("remark")) return ["Enter", "Escape"].includes(key) ? leaveRemark : null;
  const typing = target === $("field");
  if (typing && key === "Enter") return takeTyped;
  if (typing && key === "Escape") return () => go(state.at);
  if (typing && batch.kind === "classes") return null;
  // In the field for numbers letters are commands, and arrows and Backspace belong to what is being typed.
  if (typing && (key === "Backspace" || (key.startsWith("Arrow") && target.value !== labelHere()))) return null;
  // Some keyboards have digits on the upper half of their keys: there the place of the key counts.
  const digit = /^\d$/.test(key) ? key : shiftKey ? undefined : /^Digit(\d)$/.exec(code)?.[1];
  if (digit && batch.kind === "classes" && state.at < n) {
    const label = labels().find((one) => keys().get(one) === digit);
    return label === undefined ? null : () => answer({ label });
  }
  if (key === "Enter" && state.at === n && !target.closest("button")) return seam.save;
  return commands[key.length === 1 ? key.toLowerCase() : key] ?? null;
}

document.addEventListener("keydown", (event) => {
  if (event.isComposing || event.altKey) return;
  const chord = event.ctrlKey || event.metaKey;
  const command = chord ? (event.key.toLowerCase() === "s" ? seam.save : null) : commandOf(event);
  // A key held down neither labels row after row nor saves twice; it may move.
  const held = event.repeat && !event.key.startsWith("Arrow");
  if (command || (held && event.key === "Enter")) event.preventDefault();
  if (command && !held) command();
});

$("field").addEventListener("input", showLabels);
$("remark").addEventListener("input", () => {
  say($("remark").value.length < $("remark").maxLength ? "" : "A remark holds 1,000 characters: what goes beyond is left out.");
  state.remarks[state.at] = $("remark").value.trim();
  seam.remember();
  showProgress();
});
$("remark").onchange = () => answerHere() && !answerHere().byOthers && seam.given(state.at);
$("enter").onclick = () => (batch.kind === "number" ? takeTyped() : add($("field").value.trim()));
$("back").onclick = () => move(state.at - 1);
$("next").onclick = next;
$("skip").onclick = once(skip);
$("undo").onclick = undo;
$("peek").onclick = peek;
$("all").onclick = () => move(n);
for (const id of ["save", "finish"]) $(id).onclick = () => seam.save();
$("open").onclick = () => go(state.answers.indexOf(null));

// The same page in another tab: what is done there counts here.
addEventListener("storage", (event) => {
  const there = event.key === batch.key && JSON.parse(event.newValue);
  if (!(there?.steps > state.steps)) return;
  state = { ...there, at: state.at };
  show();
});

addEventListener("beforeunload", (event) => {
  if (!seam.unsaved()) return;
  event.preventDefault();
  event.returnValue = true; // for browsers of before 2024
});

// ---- words that depend on the batch

if (batch.kind === "number") {
  $("asked").textContent = batch.target;
  $("field").inputMode = "decimal";
  $("enter").replaceChildren("OK ", make("kbd", {}, "Enter"));
}

function begin() {
  widen();
  seam.recall();
  arrive();
}
