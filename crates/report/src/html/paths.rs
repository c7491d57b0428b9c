//! Assigns each delivery path one colour (a style sheet class) in all figures. Nothing else uses these colours.

use iotrail_schema::delivery_path::DeliveryPath;

/// `None` if it is not a delivery path.
pub fn class(name: &str) -> Option<&'static str> {
    let of = |v: DeliveryPath| match v {
        DeliveryPath::Inline => "p-inline",
        DeliveryPath::Enter => "p-enter",
        DeliveryPath::SyscallExit => "p-syscall_exit",
        DeliveryPath::ReschedIpi => "p-resched_ipi",
        DeliveryPath::DeviceIrq => "p-device_irq",
        DeliveryPath::TimerTick => "p-timer_tick",
        DeliveryPath::PageFault => "p-page_fault",
        DeliveryPath::OtherIrq => "p-other_irq",
        DeliveryPath::Sqpoll => "p-sqpoll",
        DeliveryPath::Iopoll => "p-iopoll",
        DeliveryPath::Iowq => "p-iowq",
        DeliveryPath::IrqDirect => "p-irq_direct",
        DeliveryPath::Thread => "p-thread",
        DeliveryPath::Kworker => "p-kworker",
        DeliveryPath::Unknown => "p-unknown",
    };
    DeliveryPath::ALL.into_iter().find(|v| v.name() == name).map(of)
}

/// Greys for parts that are not delivery paths; adjacent parts differ.
pub fn grey(i: usize) -> &'static str {
    ["n0", "n1", "n2", "n3"][i % 4]
}

/// The reference arm is the first.
pub fn arm(i: usize) -> &'static str {
    if i == 0 { "base" } else { "arm" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_delivery_path_has_its_own_colour_in_both_themes() {
        let css = include_str!("page.css");
        let mut colours: Vec<[String; 2]> = Vec::new();
        for vehicle in DeliveryPath::ALL {
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
            assert_eq!(all.len(), DeliveryPath::ALL.len());
        }
    }
}
