package lru

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// model is a table as one would write it without care for speed: the last used
// identity is the first.
type model struct {
	order  []string
	values map[string]int
	size   int
}

func (m *model) use(key string) bool {
	i := slices.Index(m.order, key)
	if i < 0 {
		return false
	}
	m.order = slices.Insert(slices.Delete(m.order, i, i+1), 0, key)
	return true
}

func (m *model) put(key string, value int) (fresh bool) {
	if !m.use(key) {
		if len(m.order) == m.size {
			delete(m.values, m.order[m.size-1])
			m.order = m.order[:m.size-1]
		}
		m.order = slices.Insert(m.order, 0, key)
		fresh = true
	}
	m.values[key] = value
	return fresh
}

// The table does what the model does, whatever is asked of it.
func TestAgainstModel(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 3, 16, 100} {
		random := rand.New(rand.NewPCG(uint64(size), 1))
		table, m := New[int, int](size, 1), &model{values: map[string]int{}, size: size}
		for i := range 20_000 {
			list, tag := random.IntN(3), fmt.Append(nil, random.IntN(2*size))
			key := fmt.Sprint(list, "|", string(tag))
			switch random.IntN(100) {
			case 0:
				table.Clear()
				m.order, m.values = nil, map[string]int{}
			case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20:
				value, fresh := table.Put(list, tag)
				*value = i
				if want := m.put(key, i); fresh != want {
					t.Fatalf("size %d, step %d: Put(%s) is fresh: %v", size, i, key, fresh)
				}
			default:
				value := table.Get(list, tag)
				known := m.use(key)
				if known != (value != nil) {
					t.Fatalf("size %d, step %d: Get(%s) found it: %v, want %v", size, i, key, value != nil, known)
				}
				if known && *value != m.values[key] {
					t.Fatalf("size %d, step %d: Get(%s) = %d, want %d", size, i, key, *value, m.values[key])
				}
			}
		}
	}
}

// Identities with one tag under two lists of limits are two.
func TestLists(t *testing.T) {
	t.Parallel()
	table := New[int, int](4, 1)
	a, _ := table.Put(1, []byte("x"))
	*a = 7
	if b, fresh := table.Put(2, []byte("x")); !fresh || b == a {
		t.Error("two lists share a value")
	}
}

// What comes and goes does not allocate once the table is full.
func TestAllocations(t *testing.T) {
	table, n := New[int, int](64, 1), 0
	tag := []byte("0000000000")
	next := func() {
		n++
		for i, rest := len(tag)-1, n; i >= 0; i, rest = i-1, rest/10 {
			tag[i] = byte('0' + rest%10)
		}
		table.Put(0, tag)
	}
	for range 100 {
		next()
	}
	if got := testing.AllocsPerRun(1000, next); got != 0 {
		t.Errorf("%v allocations for each identity", got)
	}
}
