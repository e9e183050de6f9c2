// Ranks the pages of pages.js for the words of ?q=: BM25 over the text, with titles and headings
// counted more, whole phrases first. Names are words as a whole (DLBLAS_LOG), and by their parts a
// little: each operator has a heading cuda_registers, and is no page about CUDA.
(function () {
  "use strict";
  const pages = window.dlblasPages || [];
  const PART = 0.2;  // of a name, for one of its parts
  const counts = (text) => {
    const found = new Map();
    const add = (word, n) => found.set(word, (found.get(word) || 0) + n);
    for (const word of text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) || []) {
      add(word, 1);
      if (word.includes("_")) for (const part of word.split("_")) if (part.length > 1) add(part, PART);
    }
    return found;
  };
  const times = (text, phrase) => text.toLowerCase().split(phrase).length - 1;
  // A word of the query counts where a page's word begins with it, less than where it is the word.
  const count = (words, term) => {
    let sum = words.get(term) || 0;
    if (term.length > 2) {
      for (const [word, n] of words) if (word !== term && word.startsWith(term)) sum += 0.4 * n;
    }
    return sum;
  };

  let index = null;
  const build = () => {
    index = pages.map((page) => {
      const body = counts(page.b);
      let length = 0;
      for (const n of body.values()) length += n;
      return { page, body, length, title: counts(page.t), headings: counts(page.h.map((h) => h[1]).join(" ")) };
    });
  };

  const rank = (query) => {
    if (!index) build();
    const terms = [...new Set((query.toLowerCase().match(/[\p{L}\p{N}_]+/gu) || []))];
    const phrase = query.trim().toLowerCase();
    const mean = index.reduce((sum, e) => sum + e.length, 0) / Math.max(1, index.length);
    const scores = index.map((e) => ({ page: e.page, score: 0, hits: 0 }));
    for (const term of terms) {
      const found = index.map((e) => [count(e.body, term), count(e.headings, term), count(e.title, term)]);
      const holding = found.filter((f) => f[0] + f[1] + f[2] > 0).length;
      const rare = Math.log(1 + (index.length - holding + 0.5) / (holding + 0.5));
      found.forEach(([body, heading, title], i) => {
        if (body + heading + title === 0) return;
        const n = body + 4 * heading + 12 * title;
        scores[i].score += (rare * n * 2.2) / (n + 1.2 * (0.25 + (0.75 * index[i].length) / mean));
        scores[i].score += rare * Math.min(2, 2 * title) + rare * Math.min(0.7, 0.7 * heading);
        scores[i].hits += 1;
      });
    }
    // A phrase that every operator's page has says little.
    const rarity = (holds) => {
      const holding = index.filter((e) => holds(e.page)).length;
      return Math.log(1 + (index.length - holding + 0.5) / (holding + 0.5));
    };
    const heads = (page) => times(page.t, phrase) + page.h.filter((h) => times(h[1], phrase)).length;
    const inText = rarity((page) => times(page.b, phrase)), inHead = rarity(heads);
    for (const s of scores) {
      if (s.hits < terms.length) s.score *= 0.3 ** (terms.length - s.hits);
      if (terms.length > 1 && s.hits) {
        s.score += 2 * inHead * Math.min(2, heads(s.page));
        s.score += inText * Math.log2(1 + times(s.page.b, phrase));
      }
      if (s.page.t.toLowerCase() === phrase) s.score += 20;
    }
    return { terms, found: scores.filter((s) => s.score > 0).sort((a, b) => b.score - a.score) };
  };

  const marked = (text, terms) => {
    const box = document.createElement("span");
    const sign = new RegExp("(" + terms.map((t) => t.replace(/[^\p{L}\p{N}_]/gu, "")).join("|") + ")", "giu");
    text.split(sign).forEach((part, i) => {
      const node = document.createElement(i % 2 ? "mark" : "span");
      node.textContent = part;
      box.append(node);
    });
    return box;
  };
  const excerpt = (body, terms) => {
    const low = body.toLowerCase();
    let at = -1;
    for (const term of terms) {
      const here = low.indexOf(term);
      if (here >= 0 && (at < 0 || here < at)) at = here;
    }
    const begin = Math.max(0, at - 70);
    return (begin ? "… " : "") + body.slice(begin, begin + 240) + (begin + 240 < body.length ? " …" : "");
  };

  const show = () => {
    const query = new URLSearchParams(location.search).get("q") || "";
    const box = document.getElementById("results"), told = document.getElementById("found");
    for (const field of document.querySelectorAll("input[name=q]")) field.value = query;
    if (!query.trim()) {
      told.textContent = "Type a word above.";
      return;
    }
    const { terms, found } = rank(query);
    told.textContent = found.length
      ? `${found.length} page${found.length === 1 ? "" : "s"} for “${query}”`
      : `Nothing for “${query}”. Try a part of the word, or the name of an operator.`;
    for (const { page } of found.slice(0, 40)) {
      const item = document.createElement("div");
      item.className = "result";
      const link = document.createElement("a");
      link.href = page.u;
      link.append(marked(page.t, terms));
      item.append(link);
      const heading = page.h.find((h) => terms.some((t) => h[1].toLowerCase().includes(t)));
      if (heading) {
        const there = document.createElement("a");
        there.href = page.u + (heading[0] ? "#" + heading[0] : "");
        there.className = "heading";
        there.append(marked(heading[1], terms));
        item.append(" › ", there);
      }
      const text = document.createElement("p");
      text.append(marked(excerpt(page.b, terms), terms));
      item.append(text);
      box.append(item);
    }
  };
  if (typeof document !== "undefined" && document.getElementById("results")) show();
  window.dlblasRank = rank;
})();
