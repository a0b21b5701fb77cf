// What a person reads of the page. frame.py puts this into a copy of the page in a frame, so that the dump of
// the document around it tells what is drawn.
(function () {
  var drawn = function (element) { var box = element.getBoundingClientRect(); return box.width > 0 && box.height > 0; };
  var texts = function (element) {
    return Array.prototype.filter.call(element.querySelectorAll("text"), drawn).map(function (text) {
      return { text: text.textContent, height: text.getBoundingClientRect().height, upright: !text.hasAttribute("transform") };
    });
  };
  var charts = Array.prototype.filter.call(document.querySelectorAll("svg"), drawn).map(function (svg) {
    var curves = {};
    Array.prototype.forEach.call(svg.querySelectorAll("polyline"), function (line) {
      var label = line.getAttribute("data-label");
      var points = Array.prototype.map.call(line.points, function (point) { return [point.x, point.y]; });
      curves[label] = (curves[label] || []).concat(points);
    });
    var edge = svg.querySelector("line.s-edge");
    return { title: svg.getAttribute("data-title"), texts: texts(svg), curves: curves, bottom: edge && edge.y1.baseVal.value };
  });
  var seen = document.createElement("script");
  seen.type = "application/json";
  seen.id = "seen";
  var page = document.documentElement;
  var box = { wanted: page.scrollWidth, width: page.clientWidth };
  var tables = Array.prototype.map.call(document.querySelectorAll(".scroll"), function (table) {
    return { head: table.innerText.split("\n")[0], wanted: table.scrollWidth, width: table.clientWidth };
  });
  seen.textContent = JSON.stringify({ box: box, tables: tables, text: document.body.innerText, charts: charts }).replace(/</g, "\\u003c");
  parent.document.body.appendChild(parent.document.adoptNode(seen));
})();
