package algo

import (
	_ "embed"
	"slices"
	"strings"
)

//go:embed foreign.lua
var foreignLua string

// step is a function of a .lua file, which scripts have the body of.
type step struct {
	takes []string // its parameters
	body  string   // without indentation, comments and the last return
	gives []string // what it returns, by the names of its variables
}

// scope writes steps of one limit, or of one of a rule's terms: the bodies, verbatim, one
// below the other, between two lines that make them that limit's. The first binds what they
// take to the limit's key and arguments, the last keeps what later scopes need of it:
//
//	do
//	  local key, cost, interval = KEYS[3], ARGV[7] + 0, ARGV[8] + 0
//	  ...
//	  cost_3, lead_3 = cost, lead
//	end
//
// A return within a body answers the call. A line that calls a step of the same file, or
// of foreign.lua, by the names of its parameters stands for its body.
type scope struct {
	lua, variant string
	suffix       string                   // of the names that outlive the scope: each limit has its own
	source       func(name string) string // what a name is bound to; "" if nothing
	kept         []string                 // names that live from scope to scope
	instead      string                   // what the room of a class stands for, see limiter.instead
}

// checks are the steps of a check. With classes the room of the request's class stands for what
// is compared otherwise, but what was charged is read as ever.
func (s *scope) checks() []step {
	all := s.steps(checkSteps)
	if s.instead == "" {
		return all
	}
	reads := len(s.steps(checkSteps[:3]))
	for i := range all[reads:] {
		all[reads+i].rename(s.instead, roomArgument)
	}
	return all
}

// rename gives a parameter another name.
func (s *step) rename(from, to string) {
	for i, name := range s.takes {
		if name == from {
			s.takes[i] = to
		}
	}
	var body strings.Builder
	word := 0
	for i := 0; i <= len(s.body); i++ {
		if i < len(s.body) {
			c := s.body[i]
			if c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
				continue
			}
		}
		if name := s.body[word:i]; name == from {
			body.WriteString(to)
		} else {
			body.WriteString(name)
		}
		if i < len(s.body) {
			body.WriteByte(s.body[i])
		}
		word = i + 1
	}
	s.body = body.String()
}

// steps are those steps of these names that the file has: those of its variant, where there are any.
func (s *scope) steps(names []string) (steps []step) {
	for _, name := range names {
		found, ok := step{}, false
		if s.variant != "" {
			found, ok = findStep(s.lua, name+"_"+s.variant)
		}
		if !ok {
			found, ok = findStep(s.lua, name)
		}
		if ok {
			steps = append(steps, found)
		}
	}
	return steps
}

func (s *scope) suffixed(names []string) string {
	return strings.Join(names, s.suffix+", ") + s.suffix
}

// keeping writes steps into a scope of their own, and declares before it names that live
// on from there.
func (s *scope) keeping(c *composer, names []string, steps []step) {
	if len(names) > 0 {
		c.WriteString("local " + s.suffixed(names) + "\n")
	}
	s.write(c, "", "do", steps, names)
}

// block writes steps into a scope of their own.
func (s *scope) block(c *composer, indent, opening string, steps []step) {
	s.write(c, indent, opening, steps, nil)
}

func (s *scope) write(c *composer, indent, opening string, steps []step, keep []string) {
	c.WriteString(indent + opening + "\n")
	given := s.bind(c, indent+"  ", steps)
	for i := range steps {
		for line := range strings.Lines(steps[i].body) {
			c.WriteString(indent + "  " + line)
		}
		given = append(given, steps[i].gives...)
	}
	s.kept = append(s.kept, keep...)
	var kept []string
	for _, name := range s.kept {
		if slices.Contains(given, name) {
			kept = append(kept, name)
		}
	}
	if len(kept) > 0 {
		c.WriteString(indent + "  " + s.suffixed(kept) + " = " + strings.Join(kept, ", ") + "\n")
	}
	c.WriteString(indent + "end\n")
}

// bind writes what steps take that none before them gives. It returns the names of the
// keys and arguments among them.
func (s *scope) bind(c *composer, indent string, steps []step) (fresh []string) {
	return s.bindBut(c, indent, steps, nil)
}

// bindBut does so for names that are not known already.
func (s *scope) bindBut(c *composer, indent string, steps []step, given []string) (fresh []string) {
	var bound, values []string
	for i := range steps {
		for _, name := range steps[i].takes {
			switch {
			case slices.Contains(bound, name) || slices.Contains(given, name):
				continue
			case slices.Contains(s.kept, name):
				values = append(values, name+s.suffix)
			default:
				values = append(values, s.source(name))
				fresh = append(fresh, name)
			}
			bound = append(bound, name)
		}
		given = append(given, steps[i].gives...)
	}
	if len(bound) > 0 {
		c.WriteString(indent + "local " + strings.Join(bound, ", ") + " = " + strings.Join(values, ", ") + "\n")
	}
	return fresh
}

const openingOfStep = "local function "

func findStep(lua, name string) (found step, ok bool) {
	_, after, ok := strings.Cut(lua, "\n"+openingOfStep+name+"(")
	if !ok {
		return step{}, false
	}
	takes, after, _ := strings.Cut(after, ")\n")
	code, _, _ := strings.Cut(after, "\nend\n")
	found.takes = split(takes)
	var body strings.Builder
	for line := range strings.Lines(code + "\n") {
		line = strings.TrimPrefix(line, "  ")
		if gives, last := strings.CutPrefix(line, "return "); last {
			found.gives = split(strings.TrimSpace(gives))
		} else if code := strings.TrimSpace(line); code != "" && !strings.HasPrefix(code, "--") {
			writeLine(&body, lua, line)
		}
	}
	found.body = body.String()
	return found, true
}

func split(names string) []string {
	if names == "" {
		return nil
	}
	return strings.Split(names, ", ")
}

// writeLine writes a line, or the body of the step that it calls.
func writeLine(body *strings.Builder, lua, line string) {
	name, names, ok := strings.Cut(strings.TrimSpace(line), "(")
	if !ok || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
		body.WriteString(line)
		return
	}
	for _, file := range [...]string{lua, foreignLua} {
		called, ok := findStep(file, name)
		if !ok || names != strings.Join(called.takes, ", ")+")" {
			continue
		}
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		for code := range strings.Lines(called.body) {
			body.WriteString(indent + code)
		}
		return
	}
	body.WriteString(line)
}
