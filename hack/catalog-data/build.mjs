// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Writes the catalog's dataset to standard output: the package web-features, cut down to what the tools answer with, one
// feature a line so that an update reads well in a diff. The output depends on the package alone: keys are in a fixed
// order, features and groups are sorted, and there is no clock.
//
// Whatever the package holds that this script does not know stops it: a wrong dataset must not come out quietly.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const packageDir = dirname(createRequire(import.meta.url).resolve('web-features/data.json'));
const readJSON = (name) => JSON.parse(readFileSync(join(packageDir, name), 'utf8'));
const { version } = readJSON('package.json');
const { browsers, features, groups, snapshots } = readJSON('data.json');

const fail = (message) => {
  throw new Error(`web-features@${version}: ${message}`);
};

// An upper bound is written "≤2018-10-02" or "≤15" in the package: then, or at some earlier time.
const bound = (text) => (text.startsWith('≤') ? [text.slice(1), true] : [text, undefined]);

const asDate = (text, where) => {
  const [date, orEarlier] = bound(text);
  if (!/^\d{4}-\d{2}-\d{2}$/.test(date)) fail(`${where}: "${text}" is no date`);
  return [date, orEarlier];
};

const newest = Object.values(browsers)
  .flatMap((browser) => browser.releases.map((release) => release.date))
  .sort()
  .at(-1);

const baseline = (id, status) => {
  const known = { high: 'widely', low: 'newly', false: 'limited' };
  const name = known[String(status.baseline)] ?? fail(`${id}: unknown Baseline status ${status.baseline}`);
  const result = { status: name };
  for (const [key, from] of [['low', 'baseline_low_date'], ['high', 'baseline_high_date']]) {
    if (status[from] === undefined) continue;
    const [date, orEarlier] = asDate(status[from], `${id}.${from}`);
    result[key] = date;
    if (orEarlier) result.orEarlier = true;
  }
  return result;
};

const support = (id, versions) =>
  Object.keys(browsers)
    .filter((browser) => versions[browser] !== undefined)
    .map((browser) => {
      const [wanted, orEarlier] = bound(versions[browser]);
      const release = browsers[browser].releases.find((r) => r.version === wanted);
      if (!release) fail(`${id}: ${browser} ${wanted} has no release date`);
      return { browser, version: wanted, released: release.date, orEarlier };
    });

// An anchor such as #sec-%iteratorprototype%-object makes no URL as it stands.
const urls = (list) => list.map((url) => url.replace(/%(?![0-9A-Fa-f]{2})/g, '%25'));

const discouraged = (d) =>
  d && { reason: d.reason, accordingTo: urls(d.according_to), alternatives: d.alternatives, removalDate: d.removal_date };

const feature = (id, f) => ({
  id,
  name: f.name,
  description: f.description,
  groups: f.group,
  snapshots: f.snapshot,
  specs: urls(f.spec),
  caniuse: f.caniuse,
  baseline: baseline(id, f.status),
  support: support(id, f.status.support),
  discouraged: discouraged(f.discouraged),
});

const sorted = (table) => Object.entries(table).sort(([a], [b]) => (a < b ? -1 : 1));
const named = (entries) => entries.map(([id, { name, parent }]) => ({ id, name, parent }));
const kept = [];
const redirects = [];
for (const [id, f] of sorted(features)) {
  if (f.kind === 'feature') kept.push(feature(id, f));
  else if (f.kind === 'moved') redirects.push({ id, kind: 'moved', targets: [f.redirect_target] });
  else if (f.kind === 'split') redirects.push({ id, kind: 'split', targets: f.redirect_targets });
  else fail(`${id}: unknown kind ${f.kind}`);
}
if (kept.length < 1200) fail(`only ${kept.length} features`);

const lines = (list) => `[\n${list.map((e) => JSON.stringify(e)).join(',\n')}\n]`;
process.stdout.write(`{
"dataVersion": ${JSON.stringify(`web-features@${version}`)},
"dataThrough": ${JSON.stringify(newest)},
"licence": "Apache-2.0",
"attribution": "Derived from web-features by the W3C WebDX Community Group and contributors; see NOTICE beside this file.",
"browsers": ${lines(named(Object.entries(browsers)))},
"groups": ${lines(named(sorted(groups)))},
"snapshots": ${lines(named(sorted(snapshots)))},
"redirects": ${lines(redirects)},
"features": ${lines(kept)}
}
`);
