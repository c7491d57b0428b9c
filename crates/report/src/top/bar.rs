//! Vehicles' shares as a bar of letters.

use iotrail_schema::top_record::VehicleShare;
use iotrail_schema::vehicle::Vehicle;

/// Stands for the vehicle in a bar.
pub fn letter(vehicle: Vehicle) -> char {
    match vehicle {
        Vehicle::Inline => 'i',
        Vehicle::Enter => 'e',
        Vehicle::SyscallExit => 'x',
        Vehicle::ReschedIpi => 'r',
        Vehicle::DeviceIrq => 'd',
        Vehicle::TimerTick => 't',
        Vehicle::PageFault => 'f',
        Vehicle::OtherIrq => 'o',
        Vehicle::Sqpoll => 's',
        Vehicle::Iopoll => 'p',
        Vehicle::Iowq => 'w',
        Vehicle::IrqDirect => 'I',
        Vehicle::Thread => 'h',
        Vehicle::Kworker => 'k',
        Vehicle::Unknown => '?',
    }
}

/// How many of `width` letters are each vehicle's: they sum to `width`, by the largest remainders. A share below one letter may
/// have none.
pub fn letters(vehicles: &[VehicleShare], width: usize) -> Vec<(Vehicle, usize)> {
    let exact = |v: &VehicleShare| v.share * width as f64;
    let mut letters: Vec<(Vehicle, usize, f64)> =
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
    fn letters_fill_the_bar() {
        let thirds = shares(&[(Vehicle::Enter, 1), (Vehicle::ReschedIpi, 1), (Vehicle::TimerTick, 1)]);
        assert_eq!(letters(&thirds, 10), [(Vehicle::Enter, 4), (Vehicle::ReschedIpi, 3), (Vehicle::TimerTick, 3)]);
        let most = shares(&[(Vehicle::Enter, 999), (Vehicle::Iowq, 1)]);
        assert_eq!(letters(&most, 10), [(Vehicle::Enter, 10)]);
        assert_eq!((letters(&most, 0), letters(&[], 10)), (vec![], vec![]));
        for width in 0..100 {
            let sum: usize = letters(&thirds, width).iter().map(|(_, n)| n).sum();
            assert_eq!(sum, width);
        }
    }

    #[test]
    fn no_two_vehicles_share_a_letter() {
        let mut all: Vec<char> = Vehicle::ALL.iter().map(|v| letter(*v)).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), Vehicle::ALL.len());
    }
}
