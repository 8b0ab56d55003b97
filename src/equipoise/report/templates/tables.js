// Tables of class "sortable": a click on a heading sorts by its column, a second click reverses the order.

function cellValue(cell) {
  if ("value" in cell.dataset) return Number(cell.dataset.value);
  return cell.classList.contains("number") ? NaN : cell.textContent;
}

function compareCells(a, b) {
  const left = cellValue(a);
  const right = cellValue(b);
  if (typeof left === "string" || typeof right === "string") return String(left).localeCompare(String(right));
  return left - right;
}

function sortBy(table, column, descending) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  // Undefined numbers stay at the end, whichever way round.
  const undefinedNumber = (row) => Number.isNaN(cellValue(row.cells[column]));
  const known = rows.filter((row) => !undefinedNumber(row));
  known.sort((a, b) => (descending ? -1 : 1) * compareCells(a.cells[column], b.cells[column]));
  body.append(...known, ...rows.filter(undefinedNumber));
}

for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const descending = heading.getAttribute("aria-sort") === "ascending";
      headings.forEach((each) => each.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
      sortBy(table, column, descending);
    });
  });
}

/** Show only the rows of a table that hold all words typed, and say how many they are. */
function filterRows(table, { words, keep = () => true, said }) {
  const rows = [...table.tBodies[0].rows];
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !(keep(row) && wanted.every((word) => text.includes(word)));
  }
  said.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} numbers`;
}
