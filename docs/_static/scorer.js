// The search puts the guide before the reference: few people type the name of a function. Beside `score` the numbers are
// those that Sphinx has by default.
var Scorer = {
  score: ([page, title, anchor, description, score]) => score + (page.startsWith("user_guide/") ? 12 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
