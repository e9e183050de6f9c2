// A button on each block of code that copies it, without the prompts of a console.
document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll("div.highlight > pre")) {
    const button = document.createElement("button");
    button.className = "copy";
    button.type = "button";
    button.textContent = "copy";
    button.addEventListener("click", async () => {
      let text = block.innerText;
      if (/^\$ /m.test(text))
        text = text.split("\n").filter((line) => line.startsWith("$ ")).map((line) => line.slice(2)).join("\n");
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "copied";
      } catch {
        button.textContent = "no clipboard";
      }
      setTimeout(() => (button.textContent = "copy"), 1500);
    });
    block.parentElement.append(button);
  }
});
