//! A tree and a table of strings, and four threads that each read a copy of the tree.
use std::collections::{BTreeMap, HashMap};
use std::thread;

fn main() {
    let tree: BTreeMap<u64, String> = (0..200_000).map(|number| (number * 7919 % 100_003, format!("value {number}"))).collect();
    let table: HashMap<String, u64> = tree.iter().map(|(key, value)| (value.clone(), *key)).collect();
    let readers: Vec<_> = (0..4u64)
        .map(|first| {
            let copy = tree.clone();
            thread::spawn(move || copy.iter().fold(first, |sum, (key, value)| (sum * 31 + key + value.len() as u64) % 1_000_000_007))
        })
        .collect();
    for reader in readers {
        println!("{}", reader.join().unwrap());
    }
    println!("{}", tree.values().map(|value| table[value]).sum::<u64>());
}
