// Draws every <figure class="chart">: from the JSON island inside it, or fetched from data-src when it comes into
// view. A figure is made for the light theme by the server; the dark theme replaces its colours by role.
import { LIGHT, DARK, recolour } from "./palette.js";

const CONFIG = {
  displaylogo: false,
  showSendToCloud: false,
  responsive: true,
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
  toImageButtonOptions: { format: "png", scale: 2 },
};
const MOST_HEIGHT = 900;
const NARROW = 480; // pixels: a telephone
const LETTER = 6; // pixels that a letter of a label takes
const BESIDE = 110; // pixels above and below a vertical axis
const figures = new Map(); // element -> figure as the server gave it

// Plotly writes style attributes, which the policy refuses. The same through the object model is allowed, and keeps
// heat maps from blurring.
const setAttribute = Element.prototype.setAttribute;
Element.prototype.setAttribute = function (name, value) {
  if (name === "style") this.style.cssText = value;
  else setAttribute.call(this, name, value);
};

const theme = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
};

// What every figure has in common. What a figure says itself stands.
function template(colours) {
  const axis = {
    gridcolor: colours.grid,
    linecolor: colours.rule,
    zerolinecolor: colours.zero,
    tickcolor: colours.rule,
    tickfont: { color: colours.muted },
    title: { font: { color: colours.muted, size: 12 }, standoff: 8 },
    automargin: true,
    ticks: "",
  };
  return {
    layout: {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colours.ink },
      colorway: Array.from({ length: 8 }, (_, i) => colours[`category-${i}`]),
      margin: { l: 48, r: 16, t: 12, b: 40 },
      hoverlabel: { bgcolor: colours.paper, bordercolor: colours.zero, font: { color: colours.ink, size: 12 }, align: "left" },
      legend: { font: { color: colours.muted }, orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colours.dim, activecolor: colours.accent },
      hovermode: "closest",
      dragmode: "zoom",
      xaxis: axis,
      yaxis: axis,
    },
    data: { heatmap: [{ colorbar: { outlinewidth: 0, thickness: 10, tickfont: { color: colours.muted } } }] },
  };
}

// On a narrow chart a long title of an axis breaks before its bracket, and labels of places that would meet lean to the
// left, so that the last one is not beyond the edge (Plotly leaves such a label out).
function narrowed(layout, width, height) {
  if (!width || width > NARROW) return layout;
  const own = { ...layout };
  for (const name of Object.keys(own).filter((key) => /^[xy]axis\d*$/.test(key))) {
    const axis = { ...own[name] };
    const text = axis.title?.text ?? "";
    const room = name.startsWith("y") ? height - BESIDE : width / 2;
    if (text.length * LETTER > room) axis.title = { ...axis.title, text: text.replace(" (", "<br>(") };
    const labels = name.startsWith("x") ? (axis.ticktext ?? []) : [];
    const longest = Math.max(0, ...labels.flatMap((label) => String(label).split("<br>")).map((line) => line.length));
    if (longest * LETTER * labels.length > width - 80) axis.tickangle = -40;
    own[name] = axis;
  }
  return own;
}

function themed(figure, width, height) {
  const name = theme();
  const colours = name === "dark" ? DARK : LIGHT;
  const { data, layout } = recolour({ data: figure.data, layout: figure.layout ?? {} }, name);
  const own = { ...narrowed(layout, width, height), template: template(colours), autosize: true };
  if (own.title?.text) own.margin = { ...own.margin, t: own.showlegend ? 34 : 12 };
  own.font = { ...own.font, family: getComputedStyle(document.body).fontFamily };
  delete own.width;
  delete own.height;
  delete own.title; // the page has it as a heading
  return { data, layout: own };
}

function say(chart, text, kind, retry) {
  const plot = chart.querySelector(".plot");
  const state = document.createElement("p");
  state.className = `chart-state ${kind}`;
  state.textContent = text;
  if (retry) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "button small";
    button.textContent = "Try again";
    button.addEventListener("click", retry);
    state.append(button);
  }
  plot.replaceChildren(state);
  chart.dataset.state = kind;
}

async function load(chart) {
  const island = chart.querySelector(':scope > script[type="application/json"]');
  if (island) return JSON.parse(island.textContent);
  const answer = await fetch(chart.dataset.src, { headers: { Accept: "application/json" } });
  const body = await answer.json().catch(() => null);
  if (!answer.ok) throw new Error(body?.detail ?? body?.title ?? `The server answered ${answer.status}.`);
  return body;
}

// The first local address among a point's custom data, if there is one.
function linkOf(point) {
  const given = [point?.customdata].flat(2);
  return given.find((value) => typeof value === "string" && /^\/(?!\/)/.test(value));
}

async function draw(chart) {
  const plot = chart.querySelector(".plot");
  chart.classList.add("busy");
  try {
    const figure = await load(chart);
    const meta = figure.layout?.meta ?? {};
    const caption = chart.querySelector("figcaption");
    if (meta.sentence && caption) caption.textContent = meta.sentence;
    if (meta.empty || !figure.data?.length) {
      figures.delete(chart);
      say(chart, meta.empty ?? "There is nothing to draw.", "empty");
      return;
    }
    figures.set(chart, figure);
    // A figure with many rows says how tall it has to be; without its title it needs less.
    const tall = Math.min((figure.layout?.height ?? 0) - 26, MOST_HEIGHT);
    if (tall > plot.clientHeight) plot.style.height = `${tall}px`;
    const { data, layout } = themed(figure, plot.clientWidth, plot.clientHeight);
    if (!chart.dataset.state || chart.dataset.state !== "drawn") plot.replaceChildren();
    await Plotly.react(plot, data, layout, CONFIG);
    if (chart.dataset.state !== "drawn") follow(chart, plot);
    chart.dataset.state = "drawn";
  } catch (error) {
    if (chart.dataset.state === "drawn") Plotly.purge(plot);
    say(chart, error.message, "failed", () => draw(chart));
  } finally {
    chart.classList.remove("busy");
  }
}

function follow(chart, plot) {
  plot.on("plotly_click", (event) => {
    const href = linkOf(event.points[0]);
    if (!href) {
      document.dispatchEvent(new CustomEvent("chartclick", { detail: { chart: chart.id, x: event.points[0]?.x } }));
      return;
    }
    if (event.event.ctrlKey || event.event.metaKey) open(href, "_blank", "noopener");
    else location.assign(href);
  });
  const drag = () => plot.querySelectorAll(".nsewdrag");
  plot.on("plotly_hover", (event) => drag().forEach((e) => e.classList.toggle("hot", Boolean(linkOf(event.points[0])))));
  plot.on("plotly_unhover", () => drag().forEach((e) => e.classList.remove("hot")));
  plot.classList.add("linked");
}

async function retheme() {
  for (const [chart, figure] of figures) {
    if (!chart.isConnected) figures.delete(chart);
    else {
      const plot = chart.querySelector(".plot");
      const { data, layout } = themed(figure, plot.clientWidth, plot.clientHeight);
      await Plotly.react(plot, data, layout, CONFIG);
    }
  }
}

const watcher = new IntersectionObserver(
  (entries) =>
    entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
      watcher.unobserve(entry.target);
      draw(entry.target);
    }),
  { rootMargin: "400px" },
);

// Starts drawing the charts below `root`; call it again for what was added to the page later.
export function start(root = document) {
  root.querySelectorAll("figure.chart:not([data-state])").forEach((chart) => {
    if (chart.dataset.src || chart.querySelector(':scope > script[type="application/json"]')) watcher.observe(chart);
  });
}

// Draws a chart anew from another address, with the old picture greyed until the new one is there.
export function replace(chart, src) {
  chart.dataset.src = src;
  return draw(chart);
}

document.addEventListener("themechange", retheme);
document.addEventListener("pagechange", () => {
  document.querySelectorAll("figure.chart[data-src][data-state]").forEach(draw);
  start();
});
addEventListener("beforeprint", () => document.querySelectorAll("figure.chart:not([data-state])").forEach(draw));
start();
