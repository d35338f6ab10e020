// Package local is the embedded store: the algorithms of package algo over
// Envoy's shared data, for use without Redis. All workers of one Envoy share its
// counters; other Envoys do not. The counters survive a reload of the
// configuration, and end with the process.
//
// # Shared data
//
// Each worker runs the plugin in a VM of its own, single-threaded. The VMs of one
// vm_id share a map from strings to versioned values, guarded by one mutex
// (proxy-wasm-cpp-host, src/shared_data.cc). A get copies the value into
// the VM. A set replaces it if the version is still the one that was read, and
// a set of a key that does not exist creates it, whatever version it names. The
// VM cannot delete anything, so every key stays for ever: an identity must not be one.
//
// # Pages
//
// The keys are therefore a fixed number of pages. An identity's page and its
// 16-byte fingerprint are bytes of the SHA-256 of a secret and its tag, so two
// identities never share a counter, and no client can tell which share a page. The
// secret is drawn at random by the first worker and kept in the shared data with
// the pages; the namespace (key_prefix and database) is part of it, so that filters
// with other ones count apart, as in Redis. A page holds the entries of some identities, each the
// states of the limits of its rule. A Decide reads the page, decides, and if it
// was allowed writes the page back; if another worker wrote it in between, it
// begins again. Each lost round is another's success, so the counts are exact
// under any number of workers, and no worker waits for a lock. A page that does not
// exist is created by naming a version that no value has, so of two workers that
// create it one begins again. A denied request writes nothing but strikes.
//
// The workers' clocks may differ by as long as one took to get here; for one
// identity time stands still until the clock has passed its last charge. If the
// clock was set back by a second or more, charges that lie in the future count
// from now on, and even a denied request writes them so.
//
// Bytes of another format version, or that make no sense, count as an empty page. A
// state is used again only by a limit of the same algorithm, window and variant, as
// under the same key in Redis. A penalty's state is a record of its own, and its strikes are
// the only thing that a denied request writes. States of limits that
// the plan does not have, such as those of the identity's other tiers, stay until they
// expire.
//
// # Bounds
//
// 4,096 pages of at most 4 KiB are 16 MiB, for all workers together; Envoy takes
// the memory as identities come. An identity with one limit takes 40 to 60
// bytes, so about 350,000 fit, and with 200,000 alive at a time none is evicted.
//
//   - When a page is full, entries that have expired are dropped first. (They are
//     also dropped at every write, a second after they expired.) Next go the
//     entries whose loss gives away least: those with the smallest share of a
//     capacity in use, taken to recover evenly until the entry expires; of equals
//     the one written earlier. The entry being written stays.
//   - An evicted identity starts afresh. So each eviction admits at most what the
//     identity had in use, which is at most its capacity, and Evictions counts
//     them. However many identities come, none that has used less of its limit
//     drives out one that has used more.
//   - A log keeps at most 512 distinct times of an identity. Beyond that, the
//     oldest ones within 1/511 of a window are merged into the later one. So it
//     never admits more than the algorithm, and what it admits later is late by
//     less than 0.2 % of the window.
//   - A record that does not fit a page (several long logs in one rule, or in the
//     tiers of one identity) has its logs merged further. One that still does
//     not, which takes six or more counters of 60 sub-windows in one rule, is kept
//     as it is, up to 16 KiB, and counts for half a page.
//   - A call gives up with ErrContended after 1,000 lost rounds.
//
// # In place of Redis for a while
//
// As the failure mode "local" the store starts an outage with what it remembers
// of the one before, if that has not expired, else with full capacities; Redis'
// counters go on as they were when it is back. So in each outage each Envoy may
// admit an identity as much as its limits allow, on top of what Redis had admitted.
package local
