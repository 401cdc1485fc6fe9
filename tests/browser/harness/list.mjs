// Measures the list of messages: where rows and the unread divider are on the screen.

/** The screens on which each layout test runs. */
export const SIZES = {
  desktop: { viewport: { width: 1280, height: 800 } },
  "a phone": { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true },
};

/**
 * The position of the divider, and the newest message that starts on the screen, after 3 frames.
 */
export const look = (user) =>
  user.page.locator(".scroller").evaluate(async (list) => {
    for (let frame = 0; frame < 3; frame++) await new Promise((resume) => requestAnimationFrame(resume));
    const { top, bottom } = list.getBoundingClientRect();
    const divider = list.querySelector(".unread-divider")?.getBoundingClientRect();
    const rows = [...list.querySelectorAll("[data-seq]")].filter((row) => row.closest("li").style.visibility !== "hidden");
    const seen = rows.filter((row) => row.getBoundingClientRect().top < bottom).map((row) => Number(row.dataset.seq));
    const isDividerShown = divider !== undefined && divider.top >= top && divider.bottom <= bottom;
    return { top, bottom, divider: divider && { top: divider.top, bottom: divider.bottom }, isDividerShown, lastSeen: Math.max(0, ...seen), isEnd: list.scrollHeight - list.scrollTop - list.clientHeight < 4 };
  });
