const field = (id) => document.getElementById(id);
const steps = [...document.querySelectorAll(".step")];
function filter() {
  const process = field("p").value, kind = field("k").value, text = field("t").value, led = field("led").checked;
  const isFiltered = process || kind || text || led;
  let shown = 0;
  for (const step of steps) {
    const isShown = (!process || step.dataset.p === process) && (!kind || step.dataset.k === kind) &&
      (!led || step.classList.contains("led")) && (!text || step.textContent.includes(text));
    step.classList.toggle("off", !isShown);
    shown += isShown && step.tagName === "TR";
  }
  for (const part of document.querySelectorAll("details")) {
    part.classList.toggle("off", Boolean(isFiltered) && !part.querySelector("tr:not(.off)"));
  }
  document.querySelector("output").textContent = isFiltered ? `${shown} steps` : "";
}
for (const id of ["p", "k", "t", "led"]) field(id).addEventListener("input", filter);
for (const step of document.querySelectorAll("g.step")) {
  step.addEventListener("click", () => {
    const row = field(`s${step.querySelector(".n").textContent}`);
    row.closest("details").open = true;
    location.hash = row.id;
  });
}
