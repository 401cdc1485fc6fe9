//! The graph of docs/explanation/fleet.md.

use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 50.0;
const RIGHT: f64 = 20.0;
const BOTTOM: f64 = 50.0;

/// Acknowledged so far, by tenths of a second.
pub fn draw(plain: &[u64], salted: &[u64], per_second: u64, seconds: u64) -> String {
    let shown = plain.len().max(salted.len()).max(seconds as usize * 10 + 10);
    let most = (per_second * seconds) as f64;
    let x = |tenth: usize| LEFT + (WIDTH - LEFT - RIGHT) * tenth as f64 / shown as f64;
    let y = |count: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * count / most;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <title>Messages acknowledged in one conversation at {per_second} a second, with and without salting</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-weight=\"bold\" fill=\"#222\">One conversation, {per_second} messages a second for {seconds} seconds; a partition takes 1,000</text>\n"
    );
    let mut line = |text: &str| writeln!(svg, "{text}").expect("a string takes everything");
    for quarter in 0..=4 {
        let count = most * f64::from(quarter) / 4.0;
        let at = y(count);
        line(&format!(
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{}\" y2=\"{at:.1}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{count}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            at + 4.0
        ));
    }
    for second in (0..=shown / 10).step_by(2) {
        line(&format!(
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555\">{second} s</text>",
            x(second * 10),
            HEIGHT - BOTTOM + 20.0
        ));
    }
    let offered: Vec<u64> = vec![per_second / 10; seconds as usize * 10];
    let curves = [
        (&offered[..], "#999", "6 4", "sent"),
        (plain, "#c0392b", "", "acknowledged, one partition"),
        (salted, "#1f6fb2", "", "acknowledged, salted"),
    ];
    for (index, (by_tenth, colour, dashes, name)) in curves.into_iter().enumerate() {
        let mut points = format!("{:.1},{:.1}", x(0), y(0.0));
        let mut sum = 0;
        for tenth in 0..shown {
            sum += by_tenth.get(tenth).copied().unwrap_or(0);
            write!(points, " {:.1},{:.1}", x(tenth + 1), y(sum as f64)).expect("a string takes everything");
        }
        line(&format!(
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>"
        ));
        let at = LEFT + 10.0 + 210.0 * index as f64;
        line(&format!(
            "<line x1=\"{at}\" y1=\"38\" x2=\"{}\" y2=\"38\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/><text x=\"{}\" y=\"42\" fill=\"#222\">{name}</text>",
            at + 24.0,
            at + 30.0
        ));
    }
    line("</svg>");
    svg
}
