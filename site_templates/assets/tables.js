/* Tables that can be sorted: real buttons in their headings. Without this script they stand in the published order.

   A classic script, for it has to work from file://. A live page asks it to prepare what it is about to show. */
(() => {
  "use strict";
  const lang = document.documentElement.lang || "en";
  const words = new Intl.Collator(lang, { numeric: true });
  const point = (1.5).toLocaleString(lang)[1];
  const NUMBER = /^[±+−-]?[\d.,]+(?=\s|%|\/|$)/;
  const FACTORS = { ms: 0.001, kB: 1e3, MB: 1e6, GB: 1e9 };
  const RANKS = { ok: 3, warn: 2, no: 1, bad: 1 };
  const published = new WeakMap(); // row to its place in the page as it came

  const headings = (table) => [...table.tHead.rows[0].cells];

  function sortable(table) {
    const body = table.tBodies[0];
    if (table.tBodies.length !== 1 || table.tHead?.rows.length !== 1 || body.rows.length < 2) return false;
    return !table.querySelector("[colspan], [rowspan]");
  }

  /* What a cell is sorted by: a number, a word, or null where it says that nothing is known. */
  function value(cell) {
    if (cell.dataset.v !== undefined) return cell.dataset.v === "" ? null : Number(cell.dataset.v);
    const tag = cell.querySelector(".tag");
    if (tag) return [...tag.classList].map((name) => RANKS[name]).find(Boolean) ?? null;
    const text = cell.textContent.trim();
    const quiet = cell.querySelector(".quiet")?.textContent.trim();
    if (/^[—–·?]?$/.test(text) || text === quiet) return null;
    const found = text.match(NUMBER);
    if (!found) return text;
    const plain = found[0].replace("−", "-").replace(/[±+]/, "").replaceAll(point === "," ? "." : ",", "").replace(point, ".");
    const unit = text.slice(found[0].length).trim().split(/\s/)[0];
    return Number.isNaN(Number(plain)) ? text : Number(plain) * (FACTORS[unit] ?? 1);
  }

  /* The rows in the order that the headings ask for; `shown` leads from a row to the one that holds its cells. */
  function sorted(table, shown = (row) => row) {
    const rows = [...table.tBodies[0].rows].sort((a, b) => published.get(a) - published.get(b));
    const column = headings(table).findIndex((cell) => cell.hasAttribute("aria-sort"));
    if (column < 0) return rows;
    const sign = headings(table)[column].getAttribute("aria-sort") === "ascending" ? 1 : -1;
    const values = new Map(rows.map((row) => [row, value(shown(row).cells[column])]));
    const numbers = [...values.values()].every((each) => each === null || typeof each === "number");
    const compare = (x, y) => (numbers ? x - y : words.compare(String(x), String(y)));
    return rows.sort((a, b) => {
      const [x, y] = [values.get(a), values.get(b)];
      if (x === null || y === null) return (x === null) - (y === null); // the unknown stays at the end
      return sign * compare(x, y);
    });
  }

  const arrange = (table, shown) => table.tBodies[0].append(...sorted(table, shown));
  const remember = (table) => [...table.tBodies[0].rows].forEach((row, index) => published.set(row, index));

  function equip(table) {
    remember(table);
    if (table.classList.contains("sorts")) return;
    table.classList.add("sorts");
    for (const cell of headings(table)) {
      if (!cell.textContent.trim()) continue;
      const button = table.ownerDocument.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...cell.childNodes);
      cell.append(button);
    }
  }

  /* Numbers begin with the largest, words with the first; then the other way round; then as published. */
  function next(table, column) {
    const is = headings(table)[column].getAttribute("aria-sort");
    const values = [...table.tBodies[0].rows].map((row) => value(row.cells[column]));
    const ways = values.some((each) => typeof each === "string") ? ["ascending", "descending"] : ["descending", "ascending"];
    return is === null ? ways[0] : is === ways[0] ? ways[1] : null;
  }

  document.addEventListener("click", (event) => {
    const cell = event.target.closest?.(".sort")?.closest("th");
    if (!cell) return;
    const table = cell.closest("table");
    const way = next(table, cell.cellIndex);
    headings(table).forEach((each) => each.removeAttribute("aria-sort"));
    if (way) cell.setAttribute("aria-sort", way);
    arrange(table);
  });

  /* Tables by their captions; those of one name by their order. */
  function byCaption(root) {
    const found = new Map();
    for (const table of root.querySelectorAll("main table.t")) {
      let name = table.caption?.textContent.trim() ?? "";
      while (found.has(name)) name += " ";
      found.set(name, table);
    }
    return found;
  }

  globalThis.sortableTables = {
    /* Give the tables of `fresh` the buttons and the order of those of `page`. `shown` leads from a row of `fresh` to
       the one that holds its cells. Returns what is to be called once `page` shows what `fresh` holds. */
    prepare(fresh, page, shown) {
      const mine = byCaption(page);
      const orders = new Map();
      for (const [name, table] of byCaption(fresh)) {
        if (!sortable(table)) continue;
        equip(table);
        const old = mine.get(name);
        if (old?.classList.contains("sorts")) {
          headings(old).forEach((cell, index) => {
            const way = cell.getAttribute("aria-sort");
            if (way) headings(table)[index]?.setAttribute("aria-sort", way);
          });
          if (table.querySelector("[aria-sort]")) arrange(table, shown);
        }
        orders.set(name, [...table.tBodies[0].rows].map((row) => published.get(row)));
      }
      return () => {
        const now = byCaption(page);
        for (const [name, places] of orders) {
          const table = now.get(name);
          if (table) [...table.tBodies[0].rows].forEach((row, index) => published.set(row, places[index]));
        }
      };
    },
  };

  for (const table of document.querySelectorAll("main table.t")) if (sortable(table)) equip(table);
})();
