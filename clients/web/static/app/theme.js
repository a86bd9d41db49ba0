/* Runs before the page is painted, so that a chosen theme does not flash; hence no module. */
{
  const chosen = localStorage.getItem("parley.theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
}
