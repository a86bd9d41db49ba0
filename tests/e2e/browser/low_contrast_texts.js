/* The texts on the page with a contrast of less than 4.5:1 (WCAG AA), with their contrast. */
() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const channels = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([r, g, b]) => {
    const linear = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const [x, y, z] = [r / 255, g / 255, b / 255].map(linear);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const background = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = channels(getComputedStyle(one).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255];
  };
  const top = document.querySelector("dialog[open]") ?? document.getElementById("app");
  const found = [];
  for (const element of top.querySelectorAll("*")) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!hasText || element.closest(".sr-only, [hidden]") || !element.checkVisibility()) continue;
    const [one, other] = [channels(getComputedStyle(element).color), background(element)].map(luminance);
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5)
      found.push(`${element.className || element.tagName} ${element.textContent} ${contrast.toFixed(2)}`);
  }
  return found;
};
