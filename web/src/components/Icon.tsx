// The icons, drawn as lines in the colour of the text around them.

const PATHS = {
  back: "M15 5l-7 7 7 7",
  close: "M6 6l12 12M18 6L6 18",
  compose: "M12 20h8M4 20l1-4.5L16 4.5a2.1 2.1 0 0 1 3 0l.5.5a2.1 2.1 0 0 1 0 3L8.5 19z",
  down: "M12 5v14M6 13l6 6 6-6",
  group: "M9 11.500a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM2.5 19.500c0-3.3 2.9-5 6.5-5s6.5 1.7 6.5 5M16 4.900a3.5 3.5 0 0 1 0 6.200M18 14.900c2.2.6 3.5 2.1 3.5 4.6",
  info: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 11v5.500M12 7.500v.1",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM20 20l-4-4",
  send: "M5 12h13M12 5.500l6.5 6.5-6.5 6.5",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M15 9.500a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM9 19.500a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5z",
  archive: "M4 8h16v11a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1zM3 4h18v4H3zM10 12h4",
  pin: "M8 4h8M9.5 4v6L6.5 14h11l-3-4V4M12 14v6",
  mute: "M6 16.500h12l-1.5-2.500v-3.500a4.5 4.5 0 0 0-9 0V14zM10.5 19.500h3M4 4l16 16",
  alert: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 7v6M12 16.500v.1",
  chevron: "M9 6l6 6-6 6",
  check: "M5 12.500l4.5 4.500L19 7.5",
} as const;

export type IconName = keyof typeof PATHS;

/** Icons that point in the reading direction. They are mirrored in right-to-left languages. */
const MIRRORED: ReadonlySet<IconName> = new Set(["back", "chevron", "send"]);

/** With a label, screen readers read the icon. Without one, it is a decoration. */
export function Icon(props: { name: IconName; label?: string }) {
  return (
    <svg class="icon" classList={{ mirrored: MIRRORED.has(props.name) }} viewBox="0 0 24 24" role={props.label ? "img" : undefined} aria-label={props.label} aria-hidden={props.label ? undefined : "true"}>
      <path d={PATHS[props.name]} />
    </svg>
  );
}
