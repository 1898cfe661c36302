import { render } from "solid-js/web";
import { App } from "./app";
import "./model/theme";
import "./styles/base.css";
import "./styles/layout.css";
import "./styles/chat.css";
import "./styles/panels.css";

const root = document.getElementById("root");
if (root) {
  root.replaceChildren();
  render(() => <App />, root);
}
