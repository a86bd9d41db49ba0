/* Not a module: it must run before the first paint, or the page would flash in the other theme. */
{
  const chosen = localStorage.getItem("parley.theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
}
