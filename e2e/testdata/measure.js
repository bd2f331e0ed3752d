// What a person can see of a page of bootstrap, as measured; see browser_test.go.
(() => {
  const problems = [], root = document.documentElement;
  const say = (element, text) => problems.push(`${element.tagName}.${element.className} "${element.textContent.trim().slice(0, 60)}": ${text}`);
  const channel = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const parse = text => { const m = text.match(/[\d.]+/g).map(Number); return m.length === 4 && m[3] === 0 ? null : m.slice(0, 3); };
  const light = rgb => 0.2126 * channel(rgb[0]) + 0.7152 * channel(rgb[1]) + 0.0722 * channel(rgb[2]);
  const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const rgb = parse(getComputedStyle(e).backgroundColor);
      if (rgb) return rgb;
    }
    return [255, 255, 255];
  };
  const shown = element => element.checkVisibility() && element.getBoundingClientRect().width > 0;
  const asRGB = value => { // a custom property may be written in any way
    const probe = document.createElement("span");
    probe.style.color = value;
    document.body.append(probe);
    const text = getComputedStyle(probe).color;
    probe.remove();
    return text;
  };
  const variable = name => asRGB(getComputedStyle(root).getPropertyValue(name).trim());

  if (root.scrollWidth > innerWidth) problems.push(`the page is ${root.scrollWidth} wide on a screen of ${innerWidth}`);
  if (document.querySelector("script, img, iframe, object, embed, link, form, base, svg")) problems.push("the page has an element that it should not have");
  for (const e of document.querySelectorAll("*"))
    for (const a of e.attributes)
      if (a.name.startsWith("on") || ["href", "src", "srcset", "action"].includes(a.name)) say(e, `has the attribute ${a.name}`);
  if (window.hacked) problems.push("a text of the manifest was run");

  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const e = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !shown(e)) continue;
    const style = getComputedStyle(e), size = parseFloat(style.fontSize);
    if (size < (matchMedia("print").matches ? 8 : 11)) say(e, `its letters have ${size} px`);
    const ratio = contrast(parse(style.color), behind(e));
    if (ratio < 4.5) say(e, `the contrast is ${ratio.toFixed(2)}`);
    const range = document.createRange();
    range.selectNodeContents(texts.currentNode);
    for (const box of range.getClientRects())
      if (box.left < -0.5 || box.right > innerWidth + 0.5) { say(e, `it is at ${box.left.toFixed()}-${box.right.toFixed()} of ${innerWidth}`); break; }
  }

  const cells = [...document.querySelectorAll("th, td")].filter(shown);
  for (const cell of cells)
    if (cell.scrollWidth > cell.clientWidth + 1) say(cell, `its content is ${cell.scrollWidth} wide in ${cell.clientWidth}`);

  const page = variable("--page"), shade = variable("--shade");
  const runs = [...document.querySelectorAll("table.run")].map(table => {
    const bars = [];
    let first = null;
    for (const lane of table.querySelectorAll("tbody .lane div")) {
      const box = lane.getBoundingClientRect(), bar = lane.firstElementChild, at = bar.getBoundingClientRect();
      first ||= { left: box.left + scrollX, top: box.top + scrollY, width: box.width, height: box.height };
      bars.push({ from: (at.left - box.left) / box.width || 0, to: (at.right - box.left) / box.width || 0 });
      if (!shown(table)) continue;
      if (at.left < box.left - 0.5 || at.right > box.right + 0.5) say(lane, `its bar is at ${at.left}-${at.right} in ${box.left}-${box.right}`);
      if (at.width < 1.9 || at.height < 5) say(lane, `its bar is ${at.width} x ${at.height}`);
      for (const ground of [page, shade]) {
        const ratio = contrast(parse(getComputedStyle(bar).backgroundColor), parse(ground));
        if (ratio < 3) say(lane.closest("tr"), `the contrast of its bar on ${ground} is ${ratio.toFixed(2)}`);
      }
    }
    return { shown: shown(table), bars, lane: first, shade, page };
  });
  for (const summary of document.querySelectorAll("summary")) {
    summary.focus();
    if (document.activeElement !== summary) say(summary, "the keyboard does not reach it");
  }
  return { problems: problems.slice(0, 20), title: document.title, text: document.body.innerText, rows: [...document.querySelectorAll("tr")].filter(shown).length, runs };
})()
