"""What came of a run of the conformance suite, from its JSON report, as the plain closing line.

    outcomes.py REPORT
"""

import collections
import json
import sys

GOOD = {"PASS", "SKIP", "NOT_SUPPORTED", "XFAIL"}


def main() -> int:
    with open(sys.argv[1]) as file:
        text = file.read()
    if not text.strip():
        print("there is no report: the suite had nothing to test, or did not come to its end")
        return 1
    report = json.loads(text)
    outcomes = collections.Counter(case["outcome"] for case in report["cases"])
    for case in report["cases"]:
        if case["outcome"] != "PASS":
            print(f"{case['outcome']} {case['area']}/{case['name']}: {case['message']}")
    print(f"{report['backend']['name']}, {report['devices']} device(s):", dict(outcomes))
    failed = sum(count for outcome, count in outcomes.items() if outcome not in GOOD)
    print(f"{outcomes['PASS']} passed, {failed} failed")
    return 1 if failed or not outcomes["PASS"] else 0


if __name__ == "__main__":
    sys.exit(main())
