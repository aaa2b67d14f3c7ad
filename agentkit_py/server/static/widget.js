// Puts the chat into a corner of any site:
//   <script src="https://chat.example/chat/widget.js" defer></script>
// With a sign-in of the site, before it:
//   <script>window.agentkitChat = { token: async () => "…" }</script>

(() => {
  const script = document.currentScript;
  const address = new URL("./", script.src);
  const options = window.agentkitChat ?? {};
  const { color, textColor } = __COLORS__; // of the server's ChatPage
  const label = script.dataset.label ?? "Chat with us";
  const host = document.createElement("div");
  const root = host.attachShadow({ mode: "open" });
  const style = document.createElement("style");
  style.textContent = `
    button { position: fixed; right: 1rem; bottom: 1rem; z-index: 2147483646; min-height: 3rem; padding: 0 1.2rem;
      border: 0; border-radius: 1.5rem; font: 600 1rem system-ui, sans-serif; cursor: pointer;
      background: ${color}; color: ${textColor};
      box-shadow: 0 2px 12px #0005; }
    button:focus-visible { outline: 3px solid #fff; box-shadow: 0 0 0 6px #000; }
    button.unread::after { content: ""; position: absolute; top: 0; right: 0; width: .9rem; height: .9rem;
      border-radius: 50%; background: #c62828; border: 2px solid #fff; }
    iframe { position: fixed; right: 1rem; bottom: 5rem; z-index: 2147483646; width: min(24rem, calc(100vw - 2rem));
      height: min(38rem, calc(100vh - 7rem)); border: 1px solid #8888; border-radius: .8rem; background: Canvas;
      box-shadow: 0 4px 24px #0006; }
    [hidden] { display: none; }
    @media (max-width: 30rem) {
      iframe { inset: 0 0 auto 0; width: 100%; height: calc(100vh - 4.5rem); height: calc(100dvh - 4.5rem); border: 0; border-radius: 0; }
    }`;
  const button = document.createElement("button");
  button.textContent = label;
  button.setAttribute("aria-expanded", "false");
  root.append(style, button);
  let frame = null;

  function open() {
    if (frame === null) {
      frame = document.createElement("iframe");
      frame.src = address;
      frame.title = label;
      root.append(frame);
    }
    frame.hidden = false;
    frame.focus();
    button.textContent = "Close chat";
    button.classList.remove("unread");
    button.setAttribute("aria-expanded", "true");
  }

  function close() {
    frame.hidden = true;
    button.textContent = label;
    button.setAttribute("aria-expanded", "false");
    button.focus();
  }

  button.onclick = () => (frame === null || frame.hidden ? open() : close());
  root.addEventListener("keydown", (event) => event.key === "Escape" && frame && !frame.hidden && close());
  window.addEventListener("message", async (event) => {
    if (frame === null || event.source !== frame.contentWindow || event.origin !== address.origin) return;
    const asked = event.data?.agentkit;
    if (asked === "message" && frame.hidden) button.classList.add("unread");
    if (asked === "close") close();
    if (asked !== "sign-in") return;
    const token = await options.token?.();
    frame.contentWindow.postMessage({ agentkitToken: token ?? "" }, address.origin);
  });
  document.body.append(host);
})();
