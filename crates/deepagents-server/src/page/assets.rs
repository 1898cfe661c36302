//! The files of the page. Written by `npm run build` in `web`; not by hand.

use super::{Asset, asset};

pub(super) const ASSETS: &[Asset] = &[
    asset!("/THIRD_PARTY.txt", "text/plain; charset=utf-8", "../../page/THIRD_PARTY.txt"),
    asset!("/icon.svg", "image/svg+xml", "../../page/icon.svg"),
    asset!("/", "text/html; charset=utf-8", "../../page/index.html"),
    asset!("/page/highlight-D3yTlHTu.js", "text/javascript; charset=utf-8", "../../page/page/highlight-D3yTlHTu.js"),
    asset!("/page/index-B1iBpN1Q.css", "text/css; charset=utf-8", "../../page/page/index-B1iBpN1Q.css"),
    asset!("/page/index-BkFlBdLs.js", "text/javascript; charset=utf-8", "../../page/page/index-BkFlBdLs.js"),
    asset!("/page/libesm-BerQVe3w.js", "text/javascript; charset=utf-8", "../../page/page/libesm-BerQVe3w.js"),
];
