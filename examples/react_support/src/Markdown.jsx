import ReactMarkdown from "react-markdown";
import remarkGfm from "remark-gfm";

// Pictures come from this site alone: the address of another one could carry off what was said.
const isOwn = (url) => /^\/(?![/\\])/.test(url ?? "");

const heading = ({ children }) => (
  <p>
    <strong>{children}</strong>
  </p>
);

const components = {
  ...Object.fromEntries(["h1", "h2", "h3", "h4", "h5", "h6"].map((level) => [level, heading])),
  img: ({ src, alt }) =>
    isOwn(src) ? <img src={src} alt={alt || "Picture"} /> : <span>[{alt || "picture"}]</span>,
  a: ({ href, children }) => (
    <a href={href} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  ),
  table: ({ children }) => (
    <div className="wide" tabIndex={0} role="region" aria-label="Table">
      <table>{children}</table>
    </div>
  ),
  pre: ({ children }) => <pre tabIndex={0}>{children}</pre>,
};

export function Markdown({ text }) {
  return (
    <div className="text">
      <ReactMarkdown remarkPlugins={[remarkGfm]} components={components}>
        {text}
      </ReactMarkdown>
    </div>
  );
}
