//! A small graph of what a crowd hears each second, with what happened to the servers marked in it. Each line has a panel and
//! a scale of its own: one message is acknowledged once and delivered many times.

use std::fmt::Write;
use std::time::Duration;

use bluetick_testkit::meter::Reading;

pub struct Graph {
    pub step: Duration,
    pub steps: Vec<Reading>,
    /// From when until when each node was away.
    pub away: Vec<(Duration, Duration)>,
}

const WIDTH: f64 = 720.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 12.0;
const PANEL: f64 = 120.0;
/// Above each panel, for its name.
const HEAD: f64 = 30.0;
const FOOT: f64 = 28.0;
const HEIGHT: f64 = 2.0 * (HEAD + PANEL) + FOOT;

impl Graph {
    fn per_second(&self, of: impl Fn(&Reading) -> u64) -> Vec<f64> {
        self.steps.iter().map(|reading| of(reading) as f64 / self.step.as_secs_f64()).collect()
    }

    fn seconds(&self) -> f64 {
        self.step.as_secs_f64() * self.steps.len() as f64
    }

    fn x(&self, second: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * second / self.seconds()
    }

    pub fn svg(&self) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"11\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n"
        );
        let acknowledged = self.per_second(|reading| reading.acknowledged);
        let delivered = self.per_second(|reading| reading.delivered);
        self.panel(&mut svg, HEAD, "acknowledged per second", "#1f6fb2", &acknowledged);
        self.panel(&mut svg, 2.0 * HEAD + PANEL, "delivered per second", "#2e8b57", &delivered);
        for second in (0..=self.seconds() as u64).step_by(5) {
            let (x, y) = (self.x(second as f64), HEIGHT - 10.0);
            text(&mut svg, (x, y), "middle", "#555555", &format!("{second} s"));
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn panel(&self, svg: &mut String, top: f64, name: &str, colour: &str, rates: &[f64]) {
        let bottom = top + PANEL;
        for (number, (from, until)) in self.away.iter().enumerate() {
            let (from, until) = (self.x(from.as_secs_f64()), self.x(until.as_secs_f64()));
            let width = until - from;
            writeln!(
                svg,
                "<rect x=\"{from:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"{PANEL}\" fill=\"#f0e6d2\"/>"
            )
            .unwrap();
            let middle = f64::midpoint(from, until);
            text(svg, (middle, top + 12.0), "middle", "#806020", &format!("node {}", number + 1));
        }
        let highest = rates.iter().fold(10.0_f64, |most, rate| most.max(*rate));
        let unit = 10_f64.powf(highest.log10().floor());
        let most = (highest / unit).ceil() * unit;
        let y = |rate: f64| bottom - PANEL * rate / most;
        for rate in [0.0, most / 2.0, most] {
            let (right, at) = (WIDTH - RIGHT, y(rate));
            writeln!(svg, "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#dddddd\"/>").unwrap();
            text(svg, (LEFT - 6.0, at + 4.0), "end", "#555555", &format!("{rate:.0}"));
        }
        let step = self.step.as_secs_f64();
        let points = rates.iter().enumerate();
        let points =
            points.map(|(at, rate)| format!("{:.1},{:.1}", self.x((at as f64 + 0.5) * step), y(*rate)));
        let points = points.collect::<Vec<_>>().join(" ");
        writeln!(
            svg,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"
        )
        .unwrap();
        text(svg, (LEFT, top - 8.0), "start", colour, name);
    }
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, colour: &str, text: &str) {
    writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{text}</text>")
        .unwrap();
}
