// Package twinredis is a Redis whose scripts are algo's Go twins: it takes the commands that
// plugin/redis sends and answers them as Redis would, at whatever time a test says, some
// hundred times faster. The differential tests of algo hold the twins to the Lua, to the
// microsecond.
//
// It knows EVAL and EVALSHA of the scripts of the configurations it was made for, the
// breaker's probe, AUTH, SELECT, INFO and SCRIPT FLUSH.
package twinredis

import (
	"fmt"
	"strconv"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/redisresp"
)

// Server is one Redis. It is not safe for concurrent use.
type Server struct {
	// Ran is told of each script that has run, if it is not nil. What it is passed is good
	// during the call.
	Ran func(*Call)
	// Begins, if it is not nil, says when a command runs that comes now.
	Begins func(words [][]byte, nowMicros int64) int64
	// Password is the one that AUTH must bring; empty: any.
	Password string
	// WithoutTime makes it a Redis whose scripts may not call TIME.
	WithoutTime bool

	scripts map[string]*script // by SHA-1, and by source
	loaded  map[string]bool    // by SHA-1: EVALSHA finds it
	values  map[string]value
	decoder *redisresp.Decoder
	words   [][]byte        // scratch
	out     []algo.Decision // scratch
	call    Call            // scratch
}

// value is the content of a key.
type value struct {
	state         algo.State
	text          string // of a key that an operator has set
	expiresMicros int64  // 0: never
}

// New makes an empty Redis that knows the scripts of some configurations.
func New(configurations ...*rule.Set) *Server {
	s := &Server{
		scripts: map[string]*script{},
		decoder: redisresp.NewDecoder(redisresp.Limits{}),
		out:     make([]algo.Decision, algo.MaxLimits),
	}
	s.Restart()
	for _, rules := range configurations {
		s.Know(rules)
	}
	return s
}

// Restart loses all keys and all scripts.
func (s *Server) Restart() {
	s.values = map[string]value{}
	s.FlushScripts()
}

// FlushScripts is SCRIPT FLUSH (https://redis.io/docs/latest/commands/script-flush/).
func (s *Server) FlushScripts() { s.loaded = map[string]bool{} }

// LoadScripts is SCRIPT LOAD of all scripts that it knows.
func (s *Server) LoadScripts() {
	for _, known := range s.scripts {
		s.loaded[known.sha1] = true
	}
}

// Set sets a key as an operator does: SET key text PX. 0 lives for ever.
func (s *Server) Set(key, text string, lifeMicros, nowMicros int64) {
	v := value{text: text}
	if lifeMicros > 0 {
		v.expiresMicros = nowMicros + lifeMicros
	}
	s.values[key] = v
}

// Delete is DEL.
func (s *Server) Delete(key string) { delete(s.values, key) }

// States calls yield for each key that limits and penalties have, in no order.
func (s *Server) States(nowMicros int64, yield func(key string, state algo.State)) {
	for key, v := range s.values {
		if v.state != nil && v.expiresMicros > nowMicros {
			yield(key, v.state)
		}
	}
}

// Keys calls yield for each key that is there, in no order, as KEYS does.
func (s *Server) Keys(nowMicros int64, yield func(key string)) {
	for key, v := range s.values {
		if v.expiresMicros == 0 || v.expiresMicros > nowMicros {
			yield(key)
		}
	}
}

// Receive runs whole commands, and appends their replies.
func (s *Server) Receive(dst, commands []byte, nowMicros int64) []byte {
	for len(commands) > 0 {
		command, n, outcome := s.decoder.Decode(commands)
		if outcome != redisresp.Complete {
			return append(dst, "-ERR Protocol error\r\n"...)
		}
		commands = commands[n:]
		s.words = Words(s.words[:0], command)
		at := nowMicros
		if s.Begins != nil {
			at = s.Begins(s.words, nowMicros)
		}
		dst = s.Do(dst, s.words, at)
	}
	return dst
}

// Commands reads whole commands: arrays of bulk strings, nothing else. Their words are copies.
func Commands[Word string | []byte](sent []byte) (commands [][]Word, err error) {
	for decoder := redisresp.NewDecoder(redisresp.Limits{}); len(sent) > 0; {
		command, n, outcome := decoder.Decode(sent)
		if outcome != redisresp.Complete || command.Kind != redisresp.Array {
			return nil, fmt.Errorf("no whole command in front of %q", sent)
		}
		var words []Word
		for it := command.Iter(); it.Next(); {
			if it.Reply().Kind != redisresp.Bulk {
				return nil, fmt.Errorf("not of bulk strings: %q", sent[:n])
			}
			words = append(words, Word(string(it.Reply().Bytes)))
		}
		commands, sent = append(commands, words), sent[n:]
	}
	return commands, nil
}

// Words appends the words of a command.
func Words(dst [][]byte, command redisresp.Reply) [][]byte {
	for it := command.Iter(); it.Next(); {
		dst = append(dst, it.Reply().Bytes)
	}
	return dst
}

// Do runs one command and appends its reply.
func (s *Server) Do(dst []byte, words [][]byte, nowMicros int64) []byte {
	if len(words) == 0 {
		return append(dst, "-ERR no command\r\n"...)
	}
	switch name := string(words[0]); name {
	case "EVAL", "EVALSHA":
		return s.eval(dst, words, nowMicros)
	case "AUTH":
		if s.Password != "" && string(words[len(words)-1]) != s.Password {
			return append(dst, "-WRONGPASS invalid username-password pair or user is disabled.\r\n"...)
		}
		return append(dst, "+OK\r\n"...)
	case "SELECT":
		return append(dst, "+OK\r\n"...)
	case "SCRIPT":
		s.FlushScripts()
		return append(dst, "+OK\r\n"...)
	case "INFO":
		return append(dst, "$-1\r\n"...)
	default:
		return append(append(append(dst, "-ERR unknown command '"...), name...), "'\r\n"...)
	}
}

// get returns the content of a key now; nothing if it has expired.
func (s *Server) get(key []byte, nowMicros int64) value {
	v, ok := s.values[string(key)]
	if ok && v.expiresMicros != 0 && v.expiresMicros <= nowMicros {
		delete(s.values, string(key))
		return value{}
	}
	return v
}

// put keeps a state until it matters no more; an empty one is no key.
func (s *Server) put(key []byte, state algo.State, expiresMicros int64) {
	if len(state) == 0 {
		delete(s.values, string(key))
		return
	}
	s.values[string(key)] = value{state: state, expiresMicros: expiresMicros}
}

// appendIntegers appends an array of integers.
func appendIntegers(dst []byte, values ...int64) []byte {
	dst = redisresp.AppendArray(dst, len(values))
	for _, v := range values {
		dst = appendInteger(dst, v)
	}
	return dst
}

func appendInteger(dst []byte, v int64) []byte {
	return append(strconv.AppendInt(append(dst, ':'), v, 10), "\r\n"...)
}
