//! Delivery path shares as a bar of letters.

use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::top_record::DeliveryPathShare;

/// The letter of a delivery path in a bar.
pub fn letter(vehicle: DeliveryPath) -> char {
    match vehicle {
        DeliveryPath::Inline => 'i',
        DeliveryPath::Enter => 'e',
        DeliveryPath::SyscallExit => 'x',
        DeliveryPath::ReschedIpi => 'r',
        DeliveryPath::DeviceIrq => 'd',
        DeliveryPath::TimerTick => 't',
        DeliveryPath::PageFault => 'f',
        DeliveryPath::OtherIrq => 'o',
        DeliveryPath::Sqpoll => 's',
        DeliveryPath::Iopoll => 'p',
        DeliveryPath::Iowq => 'w',
        DeliveryPath::IrqDirect => 'I',
        DeliveryPath::Thread => 'h',
        DeliveryPath::Kworker => 'k',
        DeliveryPath::Unknown => '?',
    }
}

/// Letters per delivery path, by the largest-remainder method; they add up to `width`. A share below one letter may get
/// none.
pub fn letters(vehicles: &[DeliveryPathShare], width: usize) -> Vec<(DeliveryPath, usize)> {
    let exact = |v: &DeliveryPathShare| v.share * width as f64;
    let mut letters: Vec<(DeliveryPath, usize, f64)> =
        vehicles.iter().map(|v| (v.vehicle, exact(v).floor() as usize, exact(v).fract())).collect();
    let given: usize = letters.iter().map(|(_, n, _)| n).sum();
    let mut order: Vec<usize> = (0..letters.len()).collect();
    order.sort_by(|a, b| letters[*b].2.total_cmp(&letters[*a].2));
    for i in order.into_iter().take(width.saturating_sub(given)) {
        letters[i].1 += 1;
    }
    letters.into_iter().filter(|(_, n, _)| *n > 0).map(|(vehicle, n, _)| (vehicle, n)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::sample::shares;

    #[test]
    fn delivery_letters_fill_the_bar_exactly() {
        let thirds = shares(&[(DeliveryPath::Enter, 1), (DeliveryPath::ReschedIpi, 1), (DeliveryPath::TimerTick, 1)]);
        assert_eq!(
            letters(&thirds, 10),
            [(DeliveryPath::Enter, 4), (DeliveryPath::ReschedIpi, 3), (DeliveryPath::TimerTick, 3)]
        );
        let most = shares(&[(DeliveryPath::Enter, 999), (DeliveryPath::Iowq, 1)]);
        assert_eq!(letters(&most, 10), [(DeliveryPath::Enter, 10)]);
        assert_eq!((letters(&most, 0), letters(&[], 10)), (vec![], vec![]));
        for width in 0..100 {
            let sum: usize = letters(&thirds, width).iter().map(|(_, n)| n).sum();
            assert_eq!(sum, width);
        }
    }

    #[test]
    fn each_delivery_path_has_a_unique_letter() {
        let mut all: Vec<char> = DeliveryPath::ALL.iter().map(|v| letter(*v)).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), DeliveryPath::ALL.len());
    }
}
