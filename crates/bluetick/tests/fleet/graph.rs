//! A small graph of what a crowd hears each second, with what happened to the servers marked in it.

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
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 34.0;

impl Graph {
    fn per_second(&self, of: impl Fn(&Reading) -> u64) -> Vec<f64> {
        self.steps.iter().map(|reading| of(reading) as f64 / self.step.as_secs_f64()).collect()
    }

    pub fn svg(&self) -> String {
        let acknowledged = self.per_second(|reading| reading.acknowledged);
        let delivered = self.per_second(|reading| reading.delivered);
        let highest = acknowledged.iter().chain(&delivered).fold(10.0_f64, |most, rate| most.max(*rate));
        let unit = 10_f64.powf(highest.log10().floor());
        let top = (highest / unit).ceil() * unit;
        let seconds = self.step.as_secs_f64() * self.steps.len() as f64;
        let x = |second: f64| LEFT + (WIDTH - LEFT - RIGHT) * second / seconds;
        let y = |rate: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * rate / top;
        let mut svg = String::new();
        let mut add = |line: String| writeln!(svg, "{line}").unwrap();
        add(format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">"#
        ));
        add(format!(r##"<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>"##));
        for (number, (from, until)) in self.away.iter().enumerate() {
            let (from, until) = (x(from.as_secs_f64()), x(until.as_secs_f64()));
            let (middle, width, height) = ((from + until) / 2.0, until - from, HEIGHT - TOP - BOTTOM);
            add(format!(
                r##"<rect x="{from:.1}" y="{TOP}" width="{width:.1}" height="{height}" fill="#f0e6d2"/>"##
            ));
            add(format!(
                r##"<text x="{middle:.1}" y="{:.1}" text-anchor="middle" fill="#806020">node {}</text>"##,
                TOP + 12.0,
                number + 1
            ));
        }
        for share in 0..=4 {
            let rate = top * f64::from(share) / 4.0;
            add(format!(
                r##"<path d="M{LEFT} {0:.1}H{1}" stroke="#dddddd"/><text x="{2}" y="{3:.1}" text-anchor="end" fill="#555555">{rate:.0}</text>"##,
                y(rate),
                WIDTH - RIGHT,
                LEFT - 6.0,
                y(rate) + 4.0
            ));
        }
        for second in (0..=seconds as u64).step_by(5) {
            add(format!(
                r##"<text x="{:.1}" y="{:.1}" text-anchor="middle" fill="#555555">{second} s</text>"##,
                x(second as f64),
                HEIGHT - 14.0
            ));
        }
        for (rates, colour) in [(&acknowledged, "#1f6fb2"), (&delivered, "#2e8b57")] {
            let step = self.step.as_secs_f64();
            let points = rates.iter().enumerate();
            let points =
                points.map(|(at, rate)| format!("{:.1},{:.1}", x((at as f64 + 0.5) * step), y(*rate)));
            let points: Vec<String> = points.collect();
            add(format!(
                r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="1.5"/>"#,
                points.join(" ")
            ));
        }
        add(format!(
            r##"<text x="{LEFT}" y="18" fill="#1f6fb2">acknowledged per second</text><text x="{}" y="18" fill="#2e8b57">delivered per second</text>"##,
            LEFT + 150.0
        ));
        add("</svg>".to_owned());
        svg
    }
}
