//! Scratch.
use std::time::Instant;
use tailrace_subjects::*;
struct R(u64);
impl R {
    fn n(&mut self, b: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % b
    }
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let n: usize = a[1].parse().unwrap();
    let what = a[2].as_str();
    let loops: usize = a[3].parse().unwrap();
    let mut r = R(88172645463325252);
    let word = |r: &mut R, p: usize| {
        let v = r.n(40);
        let l = 3 + (v % 6) as usize;
        let mut s = String::new();
        let mut x = v * 7919 + p as u64 * 31 + 7;
        for _ in 0..l {
            s.push((b'a' + (x % 26) as u8) as char);
            x = x / 3 + x * 5;
        }
        s
    };
    let mut pats = vec![];
    let mut subs = vec![];
    for _ in 0..n {
        let w: Vec<String> = (0..5).map(|p| word(&mut r, p)).collect();
        subs.push(w.join("."));
        let mut w = w;
        if r.n(10) == 0 {
            let p = r.n(5) as usize;
            w[p] = "*".into();
        }
        pats.push(Pattern::parse(Dialect::Nats, w.join("."), &Limits::default()).unwrap());
    }
    let space = TupleSpace::<u64>::new(Dialect::Nats);
    let t = Instant::now();
    let mut held = vec![];
    for (i, p) in pats.iter().enumerate() {
        held.push(space.subscribe(p, i as u64).unwrap());
    }
    println!("insert {:.1} ns", t.elapsed().as_nanos() as f64 / n as f64);
    let mut order: Vec<usize> = (0..n).collect();
    for i in (1..n).rev() {
        order.swap(i, r.n(i as u64 + 1) as usize);
    }
    let hot = what.contains("hot");
    let subj: Vec<&[u8]> =
        order.iter().take(if hot { 512 } else { n }).map(|i| subs[*i].as_bytes()).collect();
    let mut out = vec![];
    let mut batch = Batch::new();
    let mut hits = 0;
    for _ in 0..3 {
        let t = Instant::now();
        let mut done = 0;
        if what.starts_with("batch") {
            'o: loop {
                for c in subj.chunks(64) {
                    space.matches_many(c, &mut batch);
                    hits += batch.values().len();
                    done += c.len();
                    if done >= loops {
                        break 'o;
                    }
                }
            }
        } else if what.starts_with("cache") {
            let mut c = Cache::new(1024);
            'p: loop {
                for s in &subj {
                    hits += c.matches(&space, s).unwrap().len();
                    done += 1;
                    if done >= loops {
                        break 'p;
                    }
                }
            }
        } else if what.starts_with("insert") {
            break;
        } else {
            'q: loop {
                for s in &subj {
                    space.matches(s, &mut out).unwrap();
                    hits += out.len();
                    done += 1;
                    if done >= loops {
                        break 'q;
                    }
                }
            }
        }
        println!("{what} {:.1} ns, hits {hits}", t.elapsed().as_nanos() as f64 / done as f64);
    }
    let t = Instant::now();
    for h in held {
        space.unsubscribe(h);
    }
    println!("remove {:.1} ns", t.elapsed().as_nanos() as f64 / n as f64);
}
