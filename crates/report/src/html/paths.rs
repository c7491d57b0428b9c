//! One colour for one delivery path, in every figure: the class that the style sheet gives it. Nothing else has these colours.

use iotrail_schema::vehicle::Vehicle;

/// `None`: it is no delivery path.
pub fn class(name: &str) -> Option<&'static str> {
    let of = |v: Vehicle| match v {
        Vehicle::Inline => "p-inline",
        Vehicle::Enter => "p-enter",
        Vehicle::SyscallExit => "p-syscall_exit",
        Vehicle::ReschedIpi => "p-resched_ipi",
        Vehicle::DeviceIrq => "p-device_irq",
        Vehicle::TimerTick => "p-timer_tick",
        Vehicle::PageFault => "p-page_fault",
        Vehicle::OtherIrq => "p-other_irq",
        Vehicle::Sqpoll => "p-sqpoll",
        Vehicle::Iopoll => "p-iopoll",
        Vehicle::Iowq => "p-iowq",
        Vehicle::IrqDirect => "p-irq_direct",
        Vehicle::Thread => "p-thread",
        Vehicle::Kworker => "p-kworker",
        Vehicle::Unknown => "p-unknown",
    };
    Vehicle::ALL.into_iter().find(|v| v.name() == name).map(of)
}

/// Greys for parts that are no delivery paths; neighbours differ.
pub fn grey(i: usize) -> &'static str {
    ["n0", "n1", "n2", "n3"][i % 4]
}

/// The first arm is what the others stand beside.
pub fn arm(i: usize) -> &'static str {
    if i == 0 { "base" } else { "arm" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_a_colour_of_its_own_in_both_themes() {
        let css = include_str!("page.css");
        let mut colours: Vec<[String; 2]> = Vec::new();
        for vehicle in Vehicle::ALL {
            let rule = format!(".{} {{ --c: light-dark(", class(vehicle.name()).unwrap());
            let (_, rest) = css.split_once(&rule).unwrap_or_else(|| panic!("{rule}"));
            let (light, rest) = rest.split_once(", ").unwrap();
            let (dark, _) = rest.split_once(')').unwrap();
            colours.push([light.to_owned(), dark.to_owned()]);
        }
        for theme in [0, 1] {
            let mut all: Vec<&String> = colours.iter().map(|c| &c[theme]).collect();
            all.sort();
            all.dedup();
            assert_eq!(all.len(), Vehicle::ALL.len());
        }
    }
}
