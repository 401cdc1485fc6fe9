// The initials of a person or a group, on a colour that depends on the ID.

import { hueOf, initials } from "../text/texts.ts";

export function Avatar(props: { id: string; name: string; online?: boolean; isGroup?: boolean }) {
  return (
    <span class="avatar" classList={{ group: props.isGroup === true }} style={{ "--hue": hueOf(props.id) }} data-initials={initials(props.name)} aria-hidden="true">
      <span class="presence-dot" hidden={!props.online} />
    </span>
  );
}
