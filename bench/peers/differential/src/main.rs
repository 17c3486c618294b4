//! The programs of B12 and B16 on Differential Dataflow: `differential-peer PROGRAM FOLDER`.
//!
//! `edge.facts` is loaded, then each edge of `change.facts` is deleted and inserted again. Printed are
//! `load SECONDS ROWS`, and `delete SECONDS ROWS` and `insert SECONDS ROWS` for each change, with the rows there are then.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use differential_dataflow::input::Input;
use differential_dataflow::lattice::Lattice;
use differential_dataflow::operators::*;
use differential_dataflow::VecCollection;
use timely::dataflow::operators::probe::Handle;

type Node = u32;
type Edge = (Node, (Node, u32));
type Pair = (Node, u32);

fn rows(folder: &str, name: &str) -> Vec<Vec<u32>> {
    let text = std::fs::read_to_string(format!("{folder}/{name}.facts")).expect("the facts can be read");
    text.lines().map(|line| line.split('\t').map(|word| word.parse().expect("a number")).collect()).collect()
}

fn edge(row: &[u32]) -> Edge {
    (row[0], (row[1], row.get(2).copied().unwrap_or(0)))
}

/// The least value of each node: that of a seed, or that of a node before it plus the weight of the edge.
fn least<'scope, T>(edges: VecCollection<'scope, T, Edge>, seeds: VecCollection<'scope, T, Pair>) -> VecCollection<'scope, T, Pair>
where
    T: timely::progress::Timestamp + Lattice + Ord,
{
    seeds.clone().iterate(|scope, inner| {
        let seeds = seeds.enter(scope);
        let edges = edges.enter(scope);
        inner
            .join_map(edges, |_from, value, (to, weight)| (*to, value + weight))
            .concat(seeds)
            .reduce(|_node, values, out| out.push((*values[0].0, 1)))
    })
}

/// The pairs (node, origin) of every node that an origin leads to.
fn flow<'scope, T>(edges: VecCollection<'scope, T, Edge>, seeds: VecCollection<'scope, T, Pair>) -> VecCollection<'scope, T, Pair>
where
    T: timely::progress::Timestamp + Lattice + Ord,
{
    seeds.clone().iterate(|scope, inner| {
        let seeds = seeds.enter(scope);
        let edges = edges.enter(scope);
        inner.join_map(edges, |_from, origin, (to, _)| (*to, *origin)).concat(seeds).distinct()
    })
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (program, folder) = (arguments[1].clone(), arguments[2].clone());
    let (edges, seeds) = (rows(&folder, "edge"), rows(&folder, "seed"));
    let changes = rows(&folder, "change");
    timely::execute(timely::Config::process(2), move |worker| {
        let (index, peers) = (worker.index(), worker.peers());
        let held = Rc::new(Cell::new(0isize));
        let counter = held.clone();
        let mut probe = Handle::new();
        let (mut graph, mut starts) = worker.dataflow(|scope| {
            let (edge_input, graph) = scope.new_collection();
            let (seed_input, starts) = scope.new_collection();
            let result = match program.as_str() {
                "flow" => flow(graph, starts),
                "least" => least(graph, starts),
                other => panic!("no such program: {other}"),
            };
            result.consolidate().inspect(move |(_, _, change)| counter.set(counter.get() + *change as isize)).probe_with(&mut probe);
            (edge_input, seed_input)
        });
        let began = Instant::now();
        for row in edges.iter().skip(index).step_by(peers) {
            graph.insert(edge(row));
        }
        for row in seeds.iter().skip(index).step_by(peers) {
            starts.insert((row[0], row[1]));
        }
        starts.close();
        let mut time = 0;
        let mut finish = |kind: &str, began: Instant, graph: &mut differential_dataflow::input::InputSession<_, _, _>| {
            time += 1;
            graph.advance_to(time);
            graph.flush();
            worker.step_while(|| probe.less_than(&time));
            println!("{kind}\t{index}\t{}\t{}", began.elapsed().as_secs_f64(), held.get());
        };
        finish("load", began, &mut graph);
        for row in &changes {
            let began = Instant::now();
            if index == 0 {
                graph.remove(edge(row));
            }
            finish("delete", began, &mut graph);
            let began = Instant::now();
            if index == 0 {
                graph.insert(edge(row));
            }
            finish("insert", began, &mut graph);
        }
    })
    .expect("the workers end");
}
