package reach

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// Notes says what of a configuration helps clients to get around it. It is not a mistake.
func Notes(cfg *config.Config) (notes []config.Mistake) {
	for i := range cfg.Rules {
		r, at := &cfg.Rules[i], fmt.Sprintf("rules[%d]", i)
		note := func(path, problem string) {
			notes = append(notes, config.Mistake{Path: at + path, Problem: "rule " + strconv.Quote(r.Name) + ": " + problem})
		}
		if r.Mode == config.Off {
			continue
		}
		noteEscapes(&r.Match, ".match", note)
		noteBearers(r, note)
		if r.Settle != nil && r.Settle.Status != nil && slices.Contains(r.Match.Methods, "POST") &&
			!slices.ContainsFunc(r.Settle.Status, func(s config.StatusRange) bool { return s.First < 400 && s.Last >= 200 }) {
			note(".settle.status", "answers of 2xx and 3xx are not charged, and many applications answer a wrong password "+
				`with 200 or 302 (if yours does, want "expr", or a limit on all attempts beside it)`)
		}
		if r.Settle != nil && r.Settle.Release && r.Settle.Cost != nil {
			note(".settle.missing", `"release" gives an answer away whose client left before its cost came (want "keep" or `+
				`a cost if answers are streams)`)
		}
	}
	return notes
}

// noteBearers notes tokens that identify, in the key and in "per".
func noteBearers(r *config.Rule, note func(path, problem string)) {
	components := func(at string, all []config.Component) {
		for i := range all {
			if all[i].Source == config.FromBearer {
				note(fmt.Sprintf("%s[%d].bearer", at, i), "a JWT has many spellings that libraries take for one, and each is an "+
					"identity of its own (a claim that jwt_authn has verified has one)")
			}
		}
	}
	limits := func(at string, all []config.Limit) {
		for i := range all {
			components(fmt.Sprintf("%s[%d].per", at, i), all[i].Per)
		}
	}
	components(".key", r.Key)
	limits(".limits", r.Limits)
	if r.Tiers != nil {
		for i := range r.Tiers.Values {
			limits(".limits_by.values."+r.Tiers.Values[i].Value, r.Tiers.Values[i].Limits)
		}
	}
	if r.Over != nil {
		limits(".over.limits", r.Over.Limits)
	}
}

// escape is one in a regular expression.
var escape = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// noteEscapes notes escapes in a path's regular expression that no normalised path has.
func noteEscapes(m *config.Match, at string, note func(path, problem string)) {
	if m.Path != nil && m.Path.Op == config.Regex {
		for _, written := range escape.FindAllString(m.Path.Value, -1) {
			reads := string(text.AppendCanonical(nil, written))
			if c, _ := text.Unescape(written, 0); text.IsControl(c) {
				note(at+".path.regex", written+" is cut off the end of a path before it is compared")
			} else if reads != written {
				note(at+".path.regex", fmt.Sprintf("no normalised path holds %s (want %q)", written, reads))
			}
		}
	}
	for i := range m.Not {
		noteEscapes(&m.Not[i], fmt.Sprintf("%s.not[%d]", at, i), note)
	}
}
