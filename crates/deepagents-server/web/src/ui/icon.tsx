/** Line icons, drawn in the text colour. */

const PATHS = {
  menu: "M4 6h16M4 12h16M4 18h16",
  plus: "M12 5v14M5 12h14",
  send: "M12 19V5M5 12l7-7 7 7",
  stop: "M7 7h10v10H7z",
  close: "M6 6l12 12M18 6L6 18",
  search: "M11 4a7 7 0 1 1 0 14 7 7 0 0 1 0-14zM16 16l4 4",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  fork: "M7 4v9a4 4 0 0 0 4 4h6M17 4v13M14 14l3 3-3 3",
  clip: "M8 12l6-6a3 3 0 0 1 4 4l-8 8a5 5 0 0 1-7-7l8-8",
  check: "M5 12l5 5L20 7",
  chevron: "M9 6l6 6-6 6",
  clock: "M12 4a8 8 0 1 1 0 16 8 8 0 0 1 0-16zM12 8v4l3 2",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  tree: "M6 4v16M6 8h8M6 16h8M14 6h5v4h-5zM14 14h5v4h-5z",
  list: "M9 6h11M9 12h11M9 18h11M4 6h1M4 12h1M4 18h1",
  coins: "M12 4c4 0 7 1.300 7 3s-3 3-7 3-7-1.300-7-3 3-3 7-3zM5 7v5c0 1.700 3 3 7 3s7-1.300 7-3V7M5 12v5c0 1.700 3 3 7 3s7-1.300 7-3v-5",
  theme: "M12 4a8 8 0 1 0 0 16zM12 4a8 8 0 0 1 0 16",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  back: "M9 7L4 12l5 5M4 12h11a5 5 0 0 1 0 10",
  steer: "M5 12h10M11 6l6 6-6 6M20 5v14",
  agents: "M9 5a3.500 3.500 0 1 1 0 7 3.500 3.500 0 0 1 0-7zM3 20a6 6 0 0 1 12 0M16 6a3 3 0 0 1 0 6M17 14.500a5.500 5.500 0 0 1 4 5.500",
  goal: "M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18zM12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM12 12v.1",
  help: "M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18zM9.500 9.500a2.500 2.500 0 1 1 3.500 2.300c-.7.3-1 .8-1 1.700M12 16.500v.5",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon(props: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={PATHS[props.name]} />
    </svg>
  );
}
