// Walk follows one parameter through the code: where a reader goes who wants to know what becomes of it.
// It follows static calls in the order in which the code is written, each branch once, and each function
// the first time it is called. A stay is a run of calls into one file, a return is a stay in a file that
// the reader had left before.
//
// And it counts the functions that the code calls just once, each a jump for a reader.
//
//	go run -C tools ./walk                                     hold both to their limits
//	go run -C tools ./walk plugin/decide Stores.Ask q          print one walk, stay by stay
//	go run -C tools ./walk ./plugin/decide/...                 list what is called just once
//	go run -C tools ./walk features [feature]                  print how far features reach, or one's lines
package main

import (
	"fmt"
	"os"
	"strings"
)

// The walks that "make lint" holds. Bound: stays and returns. Beyond it, make lint fails. Protects
// readers from a path that jumps between files.
var limits = []struct {
	dir, function, parameter string
	stays, returns           int
}{
	{"plugin/decide", "Stores.Ask", "q", 45, 15},
	{"plugin/decide", "Stores.Conclude", "q", 60, 25},
}

// How many of the functions and methods that are not exported may be called just once. Bound: per cent.
// Beyond it, make lint fails. Protects readers from jumps.
const oncePercent = 24

var shipped = []string{"./plugin/...", "./algo/...", "./redisresp/..."}

// The features of decide. Bound: lines that name one, and their files, outside its own. Beyond it, make lint
// fails. Protects whoever changes one feature from reading all.
const featureLines, featureFiles = 15, 5

// Of decide, what is no feature: values, and the way of a request.
var core = []string{"doc", "question", "check", "request", "stores", "state", "verdict", "worker"}

// What is of a feature beyond its file.
var also = map[string][]string{
	"calendar": {"plugin/calendar", "plugin/rule.Calendars"},
	"lease":    {"plugin/lease", "plugin/config.Lease"},
	"level": {
		"plugin/rule.HasPer", "plugin/rule.IsPer", "plugin/rule.ValuesOf", "plugin/rule.Guarantee",
		"plugin/rule.Pool", "plugin/rule.CutPart", "plugin/config.PerID",
	},
	"local":    {"plugin/local"},
	"memory":   {"plugin/deny", "plugin/rule.Memories"},
	"over":     {"plugin/rule.Over", "plugin/rule.Excuses", "plugin/rule.Pays", "plugin/rule.Own", "algo.Over"},
	"overload": {"plugin/decide.lent"},
	"override": {"plugin/override", "plugin/rule/override.go", "plugin/rule.Ahead", "algo.Overrides"},
	"penalty":  {"algo/penalty.go", "algo.Penalty", "algo.EarnedMicros", "plugin/decide.tells", "plugin/decide.enforced"},
	"queue":    {"algo.DelayMicros"},
	"quota":    {"plugin/rule/quota.go", "plugin/rule.Reports"},
	"settle":   {"plugin/rule/settle.go", "plugin/rule.Settle", "plugin/decide.settles"},
	"slots":    {"plugin/slots", "plugin/rule.HasSlots"},
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "walk:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch len(args) {
	case 0:
	case 1, 2:
		if args[0] == "features" {
			return printFeatures(args[1:])
		}
		all, once, err := Once("..", args[0])
		for _, text := range once {
			fmt.Println(text)
		}
		fmt.Printf("%d of %d\n", len(once), all)
		return err
	case 3:
		stays, err := Walk("..", args[0], args[1], args[2])
		if err != nil {
			return err
		}
		for i, s := range stays {
			fmt.Printf("%3d  %-34s %s\n", i+1, s.File, s.text())
		}
		fmt.Printf("%d stays, %d returns\n", len(stays), Returns(stays))
		return nil
	default:
		return fmt.Errorf("want packages, or a folder, a function and a parameter, such as plugin/decide Stores.Ask q")
	}
	for _, l := range limits {
		stays, err := Walk("..", l.dir, l.function, l.parameter)
		if err != nil {
			return err
		}
		returns := Returns(stays)
		if len(stays) > l.stays || returns > l.returns {
			return fmt.Errorf("%s %s %s: %d stays and %d returns, at most %d and %d: keep what belongs together in one file",
				l.dir, l.function, l.parameter, len(stays), returns, l.stays, l.returns)
		}
	}
	features, err := spreads()
	if err != nil {
		return err
	}
	for _, s := range features {
		if len(s.Lines) > featureLines || s.Files > featureFiles {
			return fmt.Errorf("plugin/decide: %d lines in %d other files name the feature %s, at most %d in %d: "+
				"move them into its file, or into features.go", len(s.Lines), s.Files, s.Feature, featureLines, featureFiles)
		}
	}
	all, once, err := Once("..", shipped...)
	if err == nil && len(once)*100 > all*oncePercent {
		err = fmt.Errorf("%d of %d unexported functions are called just once, at most %d %%: inline them",
			len(once), all, oncePercent)
	}
	return err
}

func spreads() ([]Spread, error) { return Spreads("..", "plugin/decide", "features.go", core, also) }

func printFeatures(names []string) error {
	all, err := spreads()
	for _, s := range all {
		if len(names) > 0 && names[0] != s.Feature {
			continue
		}
		fmt.Printf("%-10s %3d lines  %2d files\n", s.Feature, len(s.Lines), s.Files)
		if len(names) > 0 {
			fmt.Println(strings.Join(s.Lines, "\n"))
		}
	}
	return err
}
