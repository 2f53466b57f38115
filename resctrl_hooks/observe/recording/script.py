"""The page's script: tooltips with the values of a drawing, and open tables in print. Without it all is drawn, too."""

from typing import Final

SCRIPT: Final = """
const tip = document.getElementById("tip"), read = new Map(), UNITS = 10000;
const prefixes = ["", "k", "M", "G", "T", "P"];
function text(value, data) {
  const base = data.binary ? 1024 : 1000;
  let place = 0;
  while (data.unit !== "times" && Math.abs(value) >= base - 0.5 && place < 5) { value /= base; place++; }
  const prefix = prefixes[place] && data.binary ? prefixes[place].toUpperCase() + "i" : prefixes[place];
  return (value >= 99.95 ? value.toFixed(0) : value.toPrecision(3)) + " " + prefix + data.unit;
}
function points(path) {  // x and y of each sample, by piece
  return path.getAttribute("d").split("M").slice(1).map(piece => {
    const [start, rest] = piece.split("l"), found = [start.split(" ").map(Number)];
    const steps = rest.split("V")[0].match(/[+-]\\d+/g) || [];
    for (let one = 0; one + 1 < steps.length; one += 2) {
      const [x, y] = found[found.length - 1];
      found.push([x + Number(steps[one]), y + Number(steps[one + 1])]);
    }
    return found;
  });
}
function at(pieces, x) {  // the sample next to x; null in a gap
  for (const piece of pieces) {
    if (x < piece[0][0] - 30 || x > piece[piece.length - 1][0] + 30) continue;
    let low = 0, high = piece.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (piece[middle][0] > x) high = middle; else low = middle;
    }
    return piece[x - piece[low][0] < piece[high][0] - x ? low : high];
  }
  return null;
}
function areas(box, x) {  // when, and name, style and value of each band there
  if (!read.has(box)) read.set(box, [...box.querySelectorAll("path")].reverse().map(path =>
    ({ name: path.dataset.name, style: path.getAttribute("class"), pieces: points(path) })));
  let below = 0, when = null;
  const found = [], top = Number(box.dataset.top), base = Number(box.dataset.base || 0);
  for (const band of read.get(box)) {
    const point = at(band.pieces, x);
    if (!point) continue;
    const sum = (UNITS - point[1]) / UNITS * top;
    if (!base || sum > below) found.push([band.name, band.style, sum - below + base]);
    below = sum; when = point[0];
  }
  const whole = found.length > 1 && !base ? [["all", "", below]] : [];
  return [when, [...whole, ...found.filter(one => one[2] > top / UNITS || found.length === 1)]];
}
function cell(box, x, event) {
  const image = box.querySelector("img"), place = image.getBoundingClientRect();
  if (!read.has(box)) {
    const canvas = document.createElement("canvas");
    canvas.width = image.naturalWidth; canvas.height = image.naturalHeight;
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    read.set(box, context.getImageData(0, 0, canvas.width, canvas.height));
  }
  const data = read.get(box), row = Math.floor((event.clientY - place.top) / place.height * data.height);
  const column = Math.floor((event.clientX - place.left) / place.width * data.width);
  if (row < 0 || column < 0 || row >= data.height || column >= data.width) return [null, []];
  const level = data.data[4 * (row * data.width + column) + 3] / 255;
  const name = box.querySelectorAll(".gutter span")[row].textContent;
  return [x, [[name, "s0", level * level * Number(box.dataset.top)]]];
}
function show(event) {
  const plot = event.target.closest && event.target.closest(".plot"), box = plot && plot.closest("[data-top]");
  tip.style.display = "none";
  if (!box || plot.closest(".times")) return;
  const place = plot.getBoundingClientRect(), x = (event.clientX - place.left) / place.width * UNITS;
  const [when, values] = box.querySelector("img") ? cell(box, x, event) : areas(box, x);
  if (when === null || !values.length) return;
  const { start, end } = box.dataset, moment = Number(start) + when / UNITS * (end - start);
  tip.textContent = new Date(moment * 1000).toISOString().slice(0, 19).replace("T", " ") + " UTC";
  for (const [name, style, value] of values) {
    const [line, label, amount] = ["p", "span", "b"].map(one => document.createElement(one));
    label.textContent = name; label.className = style; amount.textContent = text(value, box.dataset);
    line.append(label, amount); tip.append(line);
  }
  tip.style.display = "block";
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 8)) + "px";
  tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - height - 8)) + "px";
}
for (const kind of ["pointermove", "pointerdown"]) document.addEventListener(kind, show);
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  for (const one of opened) one.open = true;
});
addEventListener("afterprint", () => { for (const one of opened) one.open = false; });
"""
