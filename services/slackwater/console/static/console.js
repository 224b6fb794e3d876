// Says whether the page is live. Everything else is htmx: news arrives, the changing part is fetched and morphed in.
(() => {
  const show = (state, word) => {
    const live = document.getElementById("live");
    if (!live || live.dataset.state === state) return;
    live.dataset.state = state;
    live.querySelector(".word").textContent = word;
  };
  document.addEventListener("htmx:sseOpen", () => show("open", "live"));
  document.addEventListener("htmx:sseError", () => show("lost", "reconnecting"));
  document.addEventListener("htmx:sseClose", () => show("lost", "not live"));
})();
