package bounds

import (
	_ "embed"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"strings"
	"testing"
)

// fits are relations that the code relies on, a line each, with the reason behind a colon. Lines that begin
// with "#" are comments.
//
//go:embed fits.txt
var fits string

var qualified = regexp.MustCompile(`\b([a-z]\w*)\.(\w+)`)

// Bounds that depend on each other fit (TigerBeetle asserts such relations of its constants:
// https://github.com/tigerbeetle/tigerbeetle/blob/main/src/constants.zig).
func TestLimitsFit(t *testing.T) {
	t.Parallel()
	pkg := types.NewPackage("fit", "fit")
	for _, n := range read(t) {
		of := types.Typ[types.UntypedFloat]
		value := n.Value
		if whole := constant.ToInt(value); whole.Kind() == constant.Int {
			of, value = types.Typ[types.UntypedInt], whole
		}
		pkg.Scope().Insert(types.NewConst(token.NoPos, pkg, n.Package+"_"+n.Name, of, value))
	}
	for line := range strings.Lines(fits) {
		relation, why, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if relation == "" || relation[0] == '#' {
			continue
		}
		found, err := types.Eval(token.NewFileSet(), pkg, token.NoPos, qualified.ReplaceAllString(relation, "${1}_$2"))
		if err != nil {
			t.Errorf("%s: %v", relation, err)
		} else if !constant.BoolVal(found.Value) {
			t.Errorf("%s does not hold: %s", relation, why)
		}
	}
}
