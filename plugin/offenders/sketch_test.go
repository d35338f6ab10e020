package offenders

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

func (s *Sketch) list() (out []string) {
	for o := range s.Top {
		out = append(out, fmt.Sprintf("%s %s %d-%d", o.Rule, o.Tag, o.Rejections, o.Error))
	}
	return out
}

func (s *Sketch) addAll(text string) {
	for name := range strings.FieldsSeq(text) {
		s.Add("r", []byte("r|"+name))
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, stream string
		want         []string
	}{
		{"nothing", "", nil},
		{"one", "a", []string{"r r|a 1-0"}},
		{"by count, then tag", "c b a b c c", []string{"r r|c 3-0", "r r|b 2-0", "r r|a 1-0"}},
		{"a newcomer takes the lowest place and its count", "a a a b b c d", []string{"r r|a 3-0", "r r|b 2-0", "r r|d 2-1"}},
		{"and loses it to the next", "a a a b b c d d e", []string{"r r|a 3-0", "r r|d 3-1", "r r|e 3-2"}},
	} {
		s := New(3, 1)
		s.addAll(c.stream)
		if got := s.list(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	s := New(2, 1)
	s.addAll("a a b c c c")
	s.Reset()
	if s.Total() != 0 || s.list() != nil {
		t.Errorf("after Reset: %d, %q", s.Total(), s.list())
	}
	s.addAll("d a")
	if got, want := s.list(), []string{"r r|a 1-0", "r r|d 1-0"}; !slices.Equal(got, want) {
		t.Errorf("counted anew: %q, want %q", got, want)
	}
}

func TestTopStops(t *testing.T) {
	t.Parallel()
	s := New(5, 1)
	s.addAll("a b c")
	n := 0
	for range s.Top {
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d offenders, want 2", n)
	}
}

// The bounds of the paper hold: counts are never too low, at most Error too high,
// Error at most N/m, and every identity with more than N/m is there.
func TestBounds(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 7, 100, 1000} {
		for seed := range uint64(5) {
			draw := rand.NewZipf(rand.New(rand.NewPCG(seed, 0)), 1.2, 1, 4999) // a few identities are frequent
			s, truth := New(size, 1), map[string]int64{}
			const n = 20000
			for range n {
				tag := fmt.Sprintf("r|%d", draw.Uint64())
				truth[tag]++
				s.Add("r", []byte(tag))
			}
			checkBounds(t, s, truth, n, int64(size))
		}
	}
}

func checkBounds(t *testing.T, s *Sketch, truth map[string]int64, n, size int64) {
	t.Helper()
	held, sum := map[string]bool{}, int64(0)
	for o := range s.Top {
		what := fmt.Sprintf("size %d: %s: ", size, o.Tag)
		testenv.Within(t, what+"the rejections", truth[string(o.Tag)], o.Rejections-o.Error, o.Rejections)
		testenv.Within(t, what+"the error", o.Error, 0, n/size)
		testenv.Same(t, what+"that it was there before", held[string(o.Tag)], false)
		held[string(o.Tag)] = true
		sum += o.Rejections
	}
	if sum != n || s.Total() != n {
		t.Errorf("size %d: the counts are %d in sum, the total %d, want %d", size, sum, s.Total(), n)
	}
	for tag, is := range truth {
		if is > n/size && !held[tag] {
			t.Errorf("size %d: %s is missing, with %d of %d", size, tag, is, n)
		}
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	s := New(10, 1)
	if got, want := string(s.AppendReport(nil, 60)),
		`{"event":"top_offenders","seconds":60,"rejections":0,"offenders":[]}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, tag := range []string{"a%20b|x|y", "a%20b|x|y", `b|"\`, "c|", "d|\xff<é"} {
		rule, _, _ := strings.Cut(tag, "|")
		s.Add(strings.ReplaceAll(rule, "%20", " "), []byte(tag))
	}
	line := s.AppendReport([]byte("x "), 1)
	var got struct {
		Event      string
		Seconds    int
		Rejections int
		Offenders  []struct {
			Rule, Identity    string
			Rejections, Error int
		}
	}
	if err := json.Unmarshal(line[2:], &got); err != nil || slices.Contains(line, '\n') {
		t.Fatalf("%s: %v", line, err)
	}
	want := `{top_offenders 1 5 [{a b x|y 2 0} {b "\ 1 0} {c  1 0} {d ` + "\uFFFD" + `<é 1 0}]}`
	if text := fmt.Sprint(got); text != want {
		t.Errorf("%s\nwant %s", text, want)
	}
}

// In steady state counting allocates nothing, whoever is rejected.
func TestAllocations(t *testing.T) {
	s, n := New(64, 1), 0
	tag := []byte("r|0000")
	work := func() {
		for range 200 {
			n++
			tag[2], tag[3], tag[4] = 'a'+byte(n%26), 'a'+byte(n/26%26), 'a'+byte(n/7%26)
			s.Add("r", tag)
		}
		s.Reset()
	}
	work()
	if got := testing.AllocsPerRun(100, work); got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
}

// FuzzBounds draws streams of one-letter identities.
func FuzzBounds(f *testing.F) {
	f.Add(uint8(2), []byte("abcabcaaad"))
	f.Add(uint8(1), []byte("abba"))
	f.Add(uint8(9), []byte("zyxwvutsrqponmlkjihgfedcba"))
	f.Fuzz(func(t *testing.T, size uint8, stream []byte) {
		m := int64(max(size, 1))
		s, truth := New(int(m), 1), map[string]int64{}
		for _, c := range stream {
			tag := "r|" + string(c)
			truth[tag]++
			s.Add("r", []byte(tag))
		}
		if len(stream) > 0 {
			checkBounds(t, s, truth, int64(len(stream)), m)
		}
		for at := 1; at < len(s.heap); at++ {
			if s.at(int32(at)).Rejections < s.at(int32((at-1)/2)).Rejections {
				t.Fatalf("no heap at %d", at)
			}
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	for _, c := range []struct {
		name       string
		identities uint64
	}{{"few", 50}, {"many", 1_000_000}} {
		b.Run(c.name, func(b *testing.B) {
			draw, s := rand.NewZipf(rand.New(rand.NewPCG(1, 0)), 1.2, 1, c.identities-1), New(100, 1)
			tags := make([][]byte, 1<<14)
			for i := range tags {
				tags[i] = fmt.Appendf(nil, "per-user|%d", draw.Uint64())
			}
			i := 0
			for b.Loop() {
				s.Add("per-user", tags[i&(1<<14-1)])
				i++
			}
		})
	}
}

// A report is one line that a terminal shows as it is, whoever chose the identities.
func TestReportHasNoControls(t *testing.T) {
	t.Parallel()
	s := New(10, 1)
	s.Add("r", []byte("r|a\u009b2Jb\u202ec"))
	got := string(s.AppendReport(nil, 1))
	if want := `"identity":"a\u009b2Jb\u202ec"`; !strings.Contains(got, want) {
		t.Errorf("%q, want %s in it", got, want)
	}
}
