// The search of the site. It reads search-index.js, which is made together with the
// pages, so it works from a folder of files and asks no server.
(function () {
  "use strict";

  // find returns the parts of pages that have all words of the query, the best first.
  // A word in a heading counts more than one in the text.
  function find(index, query) {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length === 0) return [];
    const found = [];
    for (const part of index) {
      const heading = part.heading.toLowerCase();
      const title = part.title.toLowerCase();
      const text = part.text.toLowerCase();
      let score = 0;
      for (const word of words) {
        let of = 0;
        if (heading === word) of += 40;
        if (heading.includes(word)) of += 10;
        if (title.includes(word)) of += 5;
        if (text.includes(word)) of += 1 + Math.min(3, text.split(word).length - 2);
        if (of === 0) { score = 0; break; }
        score += of;
      }
      if (score === 0) continue;
      const phrase = words.join(" ");
      if (words.length > 1 && heading.includes(phrase)) score += 20;
      if (words.length > 1 && text.includes(phrase)) score += 10;
      found.push({ part: part, score: part.made ? score / 4 : score });
    }
    found.sort((a, b) => b.score - a.score); // stable: of equal ones, the order of the navigation
    return found.map((f) => f.part);
  }

  // excerpt returns the text of a part around the first word that is in it.
  function excerpt(part, query) {
    const text = part.text.toLowerCase();
    const places = query.toLowerCase().split(/\s+/).filter(Boolean).map((w) => text.indexOf(w)).filter((at) => at >= 0);
    const at = places.length > 0 ? Math.min(...places) : 0;
    const from = at < 60 ? 0 : part.text.indexOf(" ", at - 60) + 1;
    const to = Math.min(part.text.length, from + 180);
    return (from > 0 ? "… " : "") + part.text.slice(from, to) + (to < part.text.length ? " …" : "");
  }

  if (typeof module !== "undefined") {
    module.exports = { find: find, excerpt: excerpt };
    return;
  }

  const up = document.currentScript.dataset.up;
  const form = document.getElementById("search");
  const input = form.querySelector("input");
  const list = document.getElementById("found");
  form.hidden = false;

  let loading = null;
  function load() {
    loading = loading || new Promise(function (done, failed) {
      const script = document.createElement("script");
      script.src = up + "search-index.js";
      script.onload = done;
      script.onerror = failed;
      document.head.append(script);
    });
    return loading;
  }

  // marked appends a text to an element, with the words of the query marked.
  function marked(element, text, query) {
    const words = query.split(/\s+/).filter(Boolean).map((w) => w.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    text.split(new RegExp("(" + words.join("|") + ")", "i")).forEach(function (piece, i) {
      if (i % 2 === 0) return element.append(piece);
      const mark = document.createElement("mark");
      mark.append(piece);
      element.append(mark);
    });
  }

  function show() {
    const query = input.value.trim();
    list.replaceChildren();
    list.hidden = query === "";
    if (query === "") return;
    const parts = find(window.searchIndex, query);
    const count = document.createElement("p");
    count.textContent = parts.length === 0 ? "Nothing found" : parts.length + " found" + (parts.length > 20 ? ", the best 20" : "");
    list.append(count);
    for (const part of parts.slice(0, 20)) {
      const link = document.createElement("a");
      link.href = up + part.page + (part.id ? "#" + part.id : "");
      const name = document.createElement("strong");
      marked(name, part.heading === part.title ? part.title : part.title + " › " + part.heading, query);
      const text = document.createElement("span");
      marked(text, excerpt(part, query), query);
      link.append(name, text);
      link.addEventListener("click", close);
      list.append(link);
    }
  }

  function close() {
    list.hidden = true;
    list.replaceChildren();
  }

  input.addEventListener("focus", load);
  input.addEventListener("input", function () {
    load().then(show, function () {
      list.hidden = false;
      list.textContent = "cannot read search-index.js";
    });
  });
  form.addEventListener("submit", function (event) {
    event.preventDefault();
    const first = list.querySelector("a");
    if (first) first.click();
  });
  document.addEventListener("keydown", function (event) {
    const links = Array.from(list.querySelectorAll("a"));
    const at = links.indexOf(document.activeElement);
    if (event.key === "/" && document.activeElement !== input && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      input.focus();
    } else if (event.key === "Escape" && !list.hidden) {
      close();
      input.focus();
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && links.length > 0 && (at >= 0 || document.activeElement === input)) {
      event.preventDefault();
      const next = at + (event.key === "ArrowDown" ? 1 : -1);
      (links[next] || (next < 0 ? input : links[links.length - 1])).focus();
    }
  });
  document.addEventListener("click", function (event) {
    if (!list.contains(event.target) && !form.contains(event.target)) close();
  });
})();
