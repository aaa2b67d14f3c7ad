// Before the page is painted, so that it does not flash in the other colours.
const theme = localStorage.getItem("agentkit.theme");
if (theme) document.documentElement.dataset.theme = theme;
