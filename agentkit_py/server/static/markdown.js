// Markdown as DOM nodes. Nothing is ever read as HTML: a model or a stranger wrote it.
// All patterns are bounded, so that reading a text takes time linear in its length.

const INLINE =
  /`([^`\n]{1,1000})`|\*\*([^*\n]{1,1000})\*\*|\*([^*\s][^*\n]{0,1000})\*|\[([^\[\]\n]{1,300})\]\((https?:\/\/[^\s()<>]{1,2000}|mailto:[^\s()<>]{1,300})\)|(https?:\/\/[^\s<>()"']{1,2000})/g;
const LIST = /^ {0,6}(?:[-*+]|(\d{1,9})[.)]) +(.*)$/;
const HEADING = /^#{1,6} +(.*)$/;

function element(name, ...children) {
  const made = document.createElement(name);
  made.append(...children);
  return made;
}

function link(address, ...words) {
  const made = element("a", ...words);
  made.href = address;
  made.target = "_blank";
  made.rel = "noopener noreferrer nofollow";
  return made;
}

function inline(text) {
  const nodes = [];
  let end = 0;
  for (const found of text.matchAll(INLINE)) {
    const [all, code, strong, emphasis, words, address, bare] = found;
    nodes.push(text.slice(end, found.index));
    end = found.index + all.length;
    if (code !== undefined) nodes.push(element("code", code));
    else if (strong !== undefined) nodes.push(element("strong", strong));
    else if (emphasis !== undefined) nodes.push(element("em", emphasis));
    else if (words !== undefined) nodes.push(link(address, words));
    else {
      const trailing = /[.,;:!?]{1,9}$/.exec(bare)?.[0] ?? "";
      const shown = bare.slice(0, bare.length - trailing.length);
      nodes.push(link(shown, shown), trailing);
    }
  }
  nodes.push(text.slice(end));
  return nodes.filter((node) => node !== "");
}

function lines(texts) {
  return texts.flatMap((text, index) => (index ? [document.createElement("br"), ...inline(text)] : inline(text)));
}

/** Return the blocks of a text as nodes. */
export function render(text) {
  const blocks = [];
  let paragraph = [];
  let list = null;
  let code = null;
  const close = () => {
    if (paragraph.length) blocks.push(element("p", ...lines(paragraph)));
    paragraph = [];
    list = null;
  };
  for (const line of text.split("\n")) {
    if (line.startsWith("```")) {
      if (code === null) close();
      else blocks.push(element("pre", element("code", code.join("\n"))));
      code = code === null ? [] : null;
      continue;
    }
    if (code !== null) {
      code.push(line);
      continue;
    }
    const item = LIST.exec(line);
    const heading = HEADING.exec(line);
    if (item) {
      const kind = item[1] === undefined ? "UL" : "OL";
      if (list?.nodeName !== kind) {
        close();
        list = element(kind.toLowerCase());
        if (kind === "OL") list.start = Number(item[1]);
        blocks.push(list);
      }
      list.append(element("li", ...inline(item[2])));
    } else if (heading) {
      close();
      blocks.push(element("h2", ...inline(heading[1])));
    } else if (line.trim() === "") close();
    else {
      if (list) close();
      paragraph.push(line);
    }
  }
  close();
  if (code !== null) blocks.push(element("pre", element("code", code.join("\n"))));
  return blocks;
}
